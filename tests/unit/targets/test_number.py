"""Number: outputs as they are, clipped to the range; squared distances."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from palbert.targets.number import Number


def test_numbers_are_clipped_to_their_range() -> None:
    outputs = torch.tensor([[-3.0], [0.0], [2.5], [5.0], [9.0]])
    decoded = Number(range=(0.0, 5.0)).decode(outputs)
    assert decoded.predicted.tolist() == [0.0, 0.0, 2.5, 5.0, 5.0] and decoded.probabilities is None
    assert Number().decode(outputs).predicted.tolist() == outputs[:, 0].tolist()


def test_the_divergence_is_the_mean_squared_difference() -> None:
    first, second = torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [2.0]])
    assert float(Number().divergence(first, second)) == 2.0


def test_the_soft_loss_follows_the_mean_of_the_teachers() -> None:
    outputs, taught = torch.randn(5, 1), torch.randn(5, 3, 1)
    loss = Number().soft_loss(outputs, taught, temperature=3.0)
    assert torch.allclose(loss, (outputs - taught.mean(1)).square().mean())


def test_the_baseline_is_the_mean() -> None:
    labels = np.array([1.0, 2.0, 6.0], dtype=np.float32)
    assert Number().baseline(labels) == 3.0
    assert Number().spread(labels) == "1 … 6, mean 3.00"


def test_a_number_is_written_in_full_in_files_and_with_two_digits_in_a_terminal() -> None:
    number = Number(range=(0.0, 5.0))
    assert number.show(4.123456789) == "4.123457" and number.line(4.123456789, None) == "4.12"
    assert number.parse("5.0000001") == 5.0000001  # rounding in the file is not an error


@pytest.mark.parametrize("value", [1_000_001.5, 0.1, -3.0, 1234.5677])
def test_a_number_in_a_file_is_read_again_as_it_was(value: float) -> None:
    target = Number()
    assert np.float32(target.parse(target.show(np.float32(value)))) == np.float32(value)


@pytest.mark.parametrize("value", ["1e39", "-3.5e38", 4e38])
def test_a_number_beyond_float32_is_refused(value: str | float) -> None:
    with pytest.raises(ValueError, match="the range of float32"):
        Number().read(value)
    assert Number().read("3.4e38") == 3.4e38
