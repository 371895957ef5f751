"""Gram: the matrix of all inner products over shared parameters, from products of single parameters."""

from __future__ import annotations

import torch
from torch import Tensor

from palbert.gradients.gram import Gram


def collected(gradients: dict[str, list[Tensor | None]]) -> Gram:
    """Collect all squares and products of tasks' gradients, by task and place."""
    gram, tasks = Gram(gradients), list(gradients)
    for number, one in enumerate(tasks):
        for place, first in enumerate(gradients[one]):
            if first is None:
                continue
            gram.add_square(one, place, first)
            for other in tasks[number + 1 :]:
                second = gradients[other][place]
                if second is not None:
                    gram.add_product(one, other, first, second)
    return gram


def test_the_matrix_equals_that_of_the_concatenated_gradients() -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, 4), (5,), (2, 2, 2)]
    gradients: dict[str, list[Tensor | None]] = {
        task: [torch.randn(shape, generator=generator) for shape in shapes] for task in "abc"
    }
    products = collected(gradients).read()
    rows = torch.stack([torch.cat([g.flatten() for g in own if g is not None]) for own in gradients.values()])
    torch.testing.assert_close(products.matrix, rows @ rows.t())
    assert products.tasks == ["a", "b", "c"]
    assert (products.shared, products.own) == ([0, 1, 2], [])


def test_parameters_of_a_single_task_are_left_out_of_the_diagonal() -> None:
    ones = torch.ones(2)
    products = collected({"a": [ones, 3 * ones, None], "b": [2 * ones, None, 5 * ones]}).read()
    assert products.matrix.tolist() == [[2, 4], [4, 8]]
    assert (products.shared, products.own) == ([0], [1, 2])


def test_a_gradient_of_0_does_not_make_a_parameter_shared() -> None:
    ones = torch.ones(2)
    products = collected({"a": [ones, ones], "b": [ones, 0 * ones]}).read()
    assert (products.shared, products.own) == ([0], [1])
    assert products.matrix.tolist() == [[2, 2], [2, 2]]


def test_no_gradients_give_a_matrix_of_0() -> None:
    products = Gram(["a", "b"]).read()
    assert products.matrix.tolist() == [[0, 0], [0, 0]]
    assert products.shared == products.own == []
