"""Weightings: pure functions of the Gram matrix, and torchjd's own behind the published ones."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import Tensor

from palbert.errors import MissingExtraError
from palbert.gradients import Weighting
from palbert.gradients.weighting import TorchJDWeighting
from palbert.registry import GRADIENTS

PUBLISHED = sorted(set(GRADIENTS) - {"sum"})


def gram() -> Tensor:
    """Return the matrix of three gradients, two of which conflict."""
    rows = torch.tensor([[1.0, 0.5, 0.2], [-0.5, 1.0, 0.1], [0.3, -0.9, 1.0]])
    return rows @ rows.t()


def test_a_weighting_without_a_rule_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Weighting()  # type: ignore[abstract]


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_method_gives_one_weight_per_task_and_does_not_modify_the_matrix(name: str) -> None:
    pytest.importorskip("torchjd")
    weighting, matrix = GRADIENTS[name](), gram()
    assert isinstance(weighting, Weighting)
    torch.manual_seed(0)
    weights = weighting(matrix)
    assert weights.shape == (3,) and weights.isfinite().all()
    assert torch.equal(matrix, gram())
    torch.manual_seed(0)
    assert torch.equal(weighting(matrix), weights)


def test_options_reach_torchjd() -> None:
    aggregation = pytest.importorskip("torchjd.aggregation")
    found = TorchJDWeighting("CAGradWeighting", c=0.7)(gram())
    torch.testing.assert_close(found, aggregation.CAGradWeighting(c=0.7)(gram()))
    assert not torch.allclose(found, aggregation.CAGradWeighting(c=0.1)(gram()))


def test_without_torchjd_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchjd", None)
    with pytest.raises(MissingExtraError, match=r"Gradient methods need torchjd\. .*'palbert\[gradients\]'"):
        TorchJDWeighting("PCGradWeighting")
