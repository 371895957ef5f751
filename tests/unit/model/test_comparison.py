"""Comparison of two vectors: of length 1, with their cosine last."""

from __future__ import annotations

import torch

from palbert.model.comparison import compare, compared_size


def test_the_last_feature_is_the_cosine() -> None:
    first, second = torch.randn(5, 8), torch.randn(5, 8)
    *_, cosine = compare(first, second)
    torch.testing.assert_close(cosine[:, 0], torch.cosine_similarity(first, second))


def test_the_length_of_a_vector_does_not_matter() -> None:
    first, second = torch.randn(5, 8), torch.randn(5, 8)
    torch.testing.assert_close(compare(3 * first, second), compare(first, 7 * second))


def test_distance_and_product_do_not_depend_on_the_order() -> None:
    first, second = torch.randn(5, 8), torch.randn(5, 8)
    for one, other in zip(compare(first, second)[2:], compare(second, first)[2:], strict=True):
        torch.testing.assert_close(one, other)


def test_all_features_are_counted() -> None:
    groups = compare(torch.randn(5, 8), torch.randn(5, 8))
    assert sum(group.shape[1] for group in groups) == compared_size(8)
