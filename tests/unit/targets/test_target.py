"""Laws of every target: it reads what it writes, and equal outputs have distance 0, among others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from palbert.errors import PalbertError
from palbert.metrics import find_metric
from palbert.registry import LOSSES, PANELS, TARGETS
from palbert.targets import Target

CLASSES = ("red, or so", "green", "blue|sky")
ROWS = 12


def made(name: str) -> Target:
    classes = {"binary": CLASSES[:2], "number": ()}.get(name, CLASSES)
    options = {"separator": ";"} if name == "multilabel" else {}
    target: Target = TARGETS[name](classes=classes, range=(0.0, 5.0) if name == "number" else None, **options)
    target.choice = name
    return target


def outputs(target: Target, *shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(*(shape or (ROWS,)), target.outputs, generator=generator)


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Target:
    return made(request.param)


def labels(target: Target) -> Any:
    return target.gold(target.decode(outputs(target, seed=1)).predicted)


def test_a_target_knows_its_name_and_equals_another_of_the_same_settings(target: Target) -> None:
    assert target.name == target.choice
    assert target == made(target.name) and hash(target) == hash(made(target.name))
    other = made(target.name)
    other.choice = {"name": target.name, "option": 1}
    assert target != other and other.name == target.name
    assert target.problems() == []


def test_every_loss_of_a_target_exists_and_takes_its_outputs_and_labels(target: Target) -> None:
    kept = torch.from_numpy(target.array(list(labels(target))))
    for name in target.losses:
        loss = LOSSES[name](outputs(target), kept)
        assert loss.ndim == 0 and torch.isfinite(loss)
    for name in target.smoothed_losses:
        assert LOSSES[name](outputs(target), kept, label_smoothing=0.2) != LOSSES[name](outputs(target), kept)


def test_every_metric_of_a_target_scores_its_predictions(target: Target) -> None:
    gold, decoded = labels(target), target.decode(outputs(target))
    for name in (*target.metrics, *target.other_metrics):
        metric = find_metric(name)
        assert target.fits(name)
        assert np.isfinite(metric(gold, metric.compared(decoded.predicted, decoded.probabilities)))
    assert target.fits("my_module:my_metric") and not target.fits("no-such-metric")


def test_the_panels_of_a_target_exist(target: Target) -> None:
    assert target.panels in PANELS


def test_a_prediction_is_written_and_read_back(target: Target) -> None:
    decoded = target.decode(outputs(target))
    for predicted in decoded.predicted:
        read = target.parse(target.show(target.answer(predicted)))
        assert np.allclose(read, predicted, rtol=1e-5)


def test_the_line_of_an_answer_begins_with_it_and_names_every_class(target: Target) -> None:
    answer = target.answer(target.decode(outputs(target)).predicted[0])
    shares = dict.fromkeys(target.classes, 0.25) or None
    line = target.line(answer, shares)
    assert all(f"{name} 0.250" in line for name in target.classes)
    assert line.startswith(target.show(answer)[:3])


def test_probabilities_have_a_column_for_each_class(target: Target) -> None:
    decoded = target.decode(outputs(target))
    assert len(decoded.predicted) == ROWS
    if not target.classes:
        assert decoded.probabilities is None
        return
    assert decoded.probabilities is not None and decoded.probabilities.shape == (ROWS, len(target.classes))
    assert ((decoded.probabilities >= 0) & (decoded.probabilities <= 1)).all()


def test_half_precision_is_decoded_in_double(target: Target) -> None:
    half = outputs(target).bfloat16()
    assert np.array_equal(target.decode(half).predicted, target.decode(half.double()).predicted)


def test_one_row_gives_one_prediction(target: Target) -> None:
    assert len(target.decode(outputs(target, 1)).predicted) == 1


def test_the_divergence_is_symmetric_finite_and_0_for_equal_outputs(target: Target) -> None:
    first, second = 50 * outputs(target), 50 * outputs(target, seed=1)
    assert float(target.divergence(first, first)) == 0.0
    assert 0 < float(target.divergence(first, second)) < np.inf
    torch.testing.assert_close(target.divergence(first, second), target.divergence(second, first))


def test_the_divergence_is_a_mean_over_rows(target: Target) -> None:
    first, second = outputs(target), outputs(target, seed=1)
    twice = target.divergence(first.repeat(2, 1), second.repeat(2, 1))
    torch.testing.assert_close(twice, target.divergence(first, second))


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_the_soft_loss_is_lowest_at_the_answer_of_the_teacher(target: Target, temperature: float) -> None:
    at = outputs(target).requires_grad_()
    target.soft_loss(at, at.detach()[:, None].expand(-1, 3, -1), temperature=temperature).backward()
    assert at.grad is not None and at.grad.abs().max() < 1e-6


def test_labels_of_all_rows_are_one_array_of_the_targets_type(target: Target) -> None:
    array = target.array(list(labels(target)))
    assert array.dtype == np.dtype(target.dtype) and array.shape == labels(target).shape
    assert np.array_equal(target.gold(array).astype(np.float32), labels(target).astype(np.float32))


def test_the_constant_prediction_fills_an_array_of_labels(target: Target) -> None:
    array = target.array(list(labels(target)))
    constant = np.full_like(array, target.baseline(array))
    assert constant.shape == array.shape and (constant == constant[:1]).all()


def test_labels_are_described_in_one_line(target: Target) -> None:
    line = target.spread(target.array(list(labels(target))))
    assert line and "\n" not in line


def test_the_shift_is_0_if_the_shares_equal_the_prior(target: Target) -> None:
    array = target.array(list(labels(target)))
    counts = target.class_counts(array)
    assert len(counts) == len(target.classes)
    if not target.classes:
        with pytest.raises(ValueError, match="prior is for targets with classes"):
            target.read_prior([0.5, 0.5])
        return
    shares = (counts + 1) / (len(array) + 3)
    shares = shares if target.many else shares / shares.sum()
    prior = target.read_prior(shares.tolist())
    assert prior == target.read_prior(dict(zip(target.classes, shares.tolist(), strict=True)))
    assert target.logit_shift(shares, prior).shape == (target.outputs,)
    np.testing.assert_allclose(target.logit_shift(shares, prior), 0, atol=1e-12)


def test_a_number_explains_its_output_and_classes_the_output_of_each() -> None:
    number = TARGETS.find("number")(range=(0.0, 5.0))
    outputs = torch.tensor([[7.0]])
    assert number.explained == ("",) and number.log_odds(outputs) is outputs
    assert number.decided(number.decode(outputs)).tolist() == [0]
    several = TARGETS.find("multilabel")(classes=("a", "b"))
    both = torch.tensor([[-1.0, -3.0]])
    assert several.log_odds(both) is both
    assert several.decided(several.decode(both)).tolist() == [0]  # the most probable class, although none is given


def test_a_target_whose_outputs_are_not_its_answers_is_asked_for_log_odds() -> None:
    number = TARGETS.find("number")()
    with pytest.raises(PalbertError, match=r"its 2 outputs lead .* expected one output for each of 1 answers"):
        number.log_odds(torch.zeros(1, 2))
