"""The held-out loss: the same words every time, a mean over words, and no change to the model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from palbert.inference.evaluator import TOKENS_PER_BATCH
from palbert.model.masked import MaskedModel
from palbert.objectives.mlm import MLM, Masked
from palbert.runtime.run_folder import RunFolder
from palbert.training.held_out import SPARSER, HeldOut, MaskedEvaluation
from palbert.verbs.pretrain import PretrainingJob


@pytest.fixture
def run(recipe: Callable[..., Any], tmp_path: Path) -> PretrainingJob:
    return PretrainingJob(recipe(pretraining={"steps_per_epoch": 2}), RunFolder(tmp_path / "run")).prepare()


@pytest.fixture
def held_out(run: PretrainingJob) -> HeldOut:
    assert isinstance(run.trainer.evaluate, HeldOut)
    return run.trainer.evaluate


def test_the_same_model_has_the_same_loss_whatever_was_drawn_before(run: PretrainingJob, held_out: HeldOut) -> None:
    first = held_out(run.model, epoch=1, step=2)
    torch.rand(7)
    before = torch.get_rng_state()
    assert held_out(run.model, epoch=1, step=2) == first
    assert torch.equal(torch.get_rng_state(), before)
    assert replace(held_out, seed=held_out.seed + 1)(run.model, epoch=1, step=2) != first


def test_perplexity_and_overall_follow_from_the_loss(run: PretrainingJob, held_out: HeldOut) -> None:
    found = held_out(run.model, epoch=0, step=0)
    [scores] = found.tasks.values()
    assert scores["perplexity"] == pytest.approx(math.exp(scores["loss"]))
    assert found.overall == pytest.approx(1 / scores["perplexity"])
    assert str(found) == f"held-out loss {scores['loss']:.4f}, perplexity {scores['perplexity']:.2f}"


def test_the_loss_is_the_mean_over_words_of_all_batches(
    run: PretrainingJob, held_out: HeldOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    def of_words(objective: MLM, model: MaskedModel, masked: Masked) -> torch.Tensor:
        counts.append(len(masked.places))
        return torch.tensor(2.0 * counts[-1] ** 2)

    monkeypatch.setitem(TOKENS_PER_BATCH, "cpu", SPARSER)  # a batch per text
    monkeypatch.setattr(MLM, "of_words", of_words)
    [scores] = held_out(run.model, epoch=0, step=0).tasks.values()
    assert len(set(counts)) > 1
    assert scores["loss"] == pytest.approx(2.0 * sum(count**2 for count in counts) / sum(counts))


@pytest.mark.parametrize("training", [False, True])
def test_the_model_stays_in_its_mode(run: PretrainingJob, held_out: HeldOut, training: bool) -> None:
    run.model.train(training)
    held_out(run.model, epoch=0, step=0)
    assert run.model.training == training


def test_a_loss_too_large_for_exp_gives_a_finite_perplexity(
    run: PretrainingJob, held_out: HeldOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HeldOut, "_loss", lambda self, model: 1e6)
    found = held_out(run.model, epoch=0, step=0)
    [scores] = found.tasks.values()
    assert isinstance(found, MaskedEvaluation) and math.isfinite(scores["perplexity"]) and found.overall == 0
