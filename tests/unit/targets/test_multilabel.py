"""Multilabel: any number of classes per row, from lists or texts, with a Bernoulli distribution per class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from palbert.errors import PalbertError
from palbert.targets.binary import Binary
from palbert.targets.labels import LabelReader
from palbert.targets.multilabel import Multilabel

TARGET = Multilabel(classes=("joy", "anger", "fear"))
BINARY = Binary(classes=("no", "yes"))


def outputs(*shape: int, seed: int = 0) -> torch.Tensor:
    return 2 * torch.randn(*(shape or (9,)), 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    ("raw", "label"),
    [
        ("joy|anger", [1, 1, 0]),
        (" fear | joy ", [1, 0, 1]),
        ("2", [0, 0, 1]),
        ("joy|joy|", [1, 0, 0]),
        ("", [0, 0, 0]),
        ([], [0, 0, 0]),
        (["anger", "2"], [0, 1, 1]),
        ([""], [0, 0, 0]),
    ],
)
def test_a_label_is_a_one_for_each_class_of_a_row(raw: Any, label: list[int]) -> None:
    assert LabelReader(TARGET)(raw).tolist() == label


@pytest.mark.parametrize("raw", ["joy|rage", ["rage"], "3", "joy,anger"])
def test_an_unknown_class_is_refused_with_the_known_ones(raw: Any) -> None:
    with pytest.raises(ValueError, match="one of joy, anger, fear"):
        LabelReader(TARGET)(raw)


@pytest.mark.parametrize("raw", [["0", "1", "1"], "1|0|0", ["0", "0", "0"], ["1.0", "0.0", "0.0"]])
def test_a_zero_or_one_for_each_class_is_not_read_as_indices(raw: Any) -> None:
    with pytest.raises(ValueError, match="not a 0 or 1 for each class"):
        LabelReader(TARGET)(raw)


@pytest.mark.parametrize("name", ["", " ", "joy ", "\tjoy"])
def test_a_class_that_no_cell_can_name_is_refused(name: str) -> None:
    assert "begins or ends with a space, or is empty" in Multilabel(classes=("a", name)).problems()[0]


def test_a_mapping_holds_for_each_class_and_drops_a_row_with_any_that_is_dropped() -> None:
    reader = LabelReader(TARGET, labels={"happy": "joy", "cross": 1, "unclear": "drop"})
    assert reader("happy|cross").tolist() == [1, 1, 0]
    assert reader("").tolist() == [0, 0, 0]
    assert reader("happy|unclear") is None


def test_another_separator_splits_and_joins() -> None:
    target = Multilabel(classes=("a|b", "c"), separator=", ")
    assert LabelReader(target)("c, a|b").tolist() == [1, 1]
    assert target.show(target.answer([1, 1])) == "a|b, c"
    assert target.problems() == []
    assert "holds the separator '|'" in Multilabel(classes=("a|b", "c")).problems()[0]


def test_a_class_is_predicted_above_its_threshold() -> None:
    logits = torch.tensor([[0.0, 1.0, -1.0]])
    assert TARGET.decode(logits).predicted.tolist() == [[0, 1, 0]]
    low = Multilabel(classes=TARGET.classes, threshold=0.2)
    assert low.decode(logits).predicted.tolist() == [[1, 1, 1]]
    mixed = Multilabel(classes=TARGET.classes, threshold={"fear": 0.2, "anger": 0.9})
    assert mixed.decode(logits).predicted.tolist() == [[0, 0, 1]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": 1.5}, "threshold: expected a number"),
        ({"threshold": {"rage": 0.5}}, "threshold: there is no class 'rage'"),
        ({"separator": " "}, "separator: expected a text"),
        ({"separator": 1}, "separator: expected a text"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PalbertError, match=message):
        Multilabel(classes=TARGET.classes, **options)


def test_every_class_is_a_separate_binary_target() -> None:
    first, second, taught = outputs(), outputs(seed=1), outputs(9, 2, seed=2)
    columns = range(3)
    apart = [BINARY.divergence(first[:, [c]], second[:, [c]]) for c in columns]
    torch.testing.assert_close(TARGET.divergence(first, second), torch.stack(apart).sum())
    soft = [BINARY.soft_loss(first[:, [c]], taught[:, :, [c]], temperature=2.0) for c in columns]
    torch.testing.assert_close(TARGET.soft_loss(first, taught, temperature=2.0), torch.stack(soft).mean())
    found = TARGET.decode(first)
    for c in columns:
        assert np.array_equal(found.predicted[:, c], BINARY.decode(first[:, [c]]).predicted)
    shares, prior = np.array([0.1, 0.6, 0.3]), (0.5, 0.2, 0.3)
    shifts = [BINARY.logit_shift(np.array([1 - s, s]), (1 - p, p))[0] for s, p in zip(shares, prior, strict=True)]
    np.testing.assert_allclose(TARGET.logit_shift(shares, prior), shifts, atol=1e-12)


def test_a_prior_has_a_share_for_each_class_and_any_sum() -> None:
    assert TARGET.read_prior([0.9, 0.8, 0.1]) == (0.9, 0.8, 0.1)
    assert TARGET.read_prior({"fear": 0.1, "joy": 0.9, "anger": 0.8}) == (0.9, 0.8, 0.1)
    with pytest.raises(ValueError, match="between 0 and 1"):
        TARGET.read_prior([0.0, 0.5, 0.5])


def test_the_baseline_has_the_classes_that_most_rows_have() -> None:
    labels = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=np.float32)
    assert TARGET.baseline(labels).tolist() == [1, 0, 0]
    assert TARGET.class_counts(labels).tolist() == [3, 2, 1]
    assert TARGET.spread(labels) == "75% / 50% / 25%, 1.50 per row"


def test_an_answer_may_have_no_classes() -> None:
    assert TARGET.answer(np.zeros(3)) == [] and TARGET.show([]) == "" and TARGET.parse("").tolist() == [0, 0, 0]
    assert TARGET.line([], {"joy": 0.1}) == "none  (joy 0.100)"
    assert TARGET.line(["joy", "fear"], None) == "joy, fear"
    with pytest.raises(ValueError, match="there is no class 'rage'"):
        TARGET.parse("joy|rage")
