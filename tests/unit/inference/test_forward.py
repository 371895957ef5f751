"""Forward: rows rounded up for replay get the outputs of the rows themselves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch

from palbert.data.collate import Portion, collate
from palbert.data.ragged import Ragged
from palbert.data.tokenizer import TextTokenizer
from palbert.inference import forward as forward_module
from palbert.inference.forward import LARGEST, Forward, ReplayedForward, fill_up
from palbert.inference.questions import OneTask
from palbert.model.config import EncoderConfig
from palbert.model.encoder import Encoder
from palbert.model.multitask import MultiTaskModel
from palbert.registry import HEADS, POOLINGS
from palbert.runtime.graphs import Recorder

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
GENERATOR = np.random.default_rng(0)
TEXTS = tuple(
    Ragged.from_rows([list(GENERATOR.integers(5, 90, n)) for n in GENERATOR.integers(1, 30, 50)]) for _ in "ab"
)


@pytest.fixture
def model() -> MultiTaskModel:
    """Make a small model with a head for one text and one for pairs."""
    torch.manual_seed(0)
    encoder = Encoder(EncoderConfig("bert", 100, 32, 32, 2, 4, 64, 128))
    heads = {"single": HEADS["linear"](32, outputs=3, dropout=0.1), "pair": HEADS["concat"](32, outputs=1, dropout=0.1)}
    poolings = {"single": POOLINGS["cls"](32), "pair": POOLINGS["mean"](32)}
    return MultiTaskModel(encoder, heads=heads, poolings=poolings).eval()


def portion(task: str, rows: int) -> Portion:
    """Take some rows for a task."""
    chosen = np.arange(3, 3 + rows)
    return Portion(task, task, TEXTS if task == "pair" else TEXTS[:1], chosen, max_length=64, siamese=task == "pair")


@pytest.mark.parametrize("task", ["single", "pair"])
@pytest.mark.parametrize("rows", [1, 2, 3, 11])
def test_filling_up_does_not_change_the_outputs_of_the_rows(
    model: MultiTaskModel, tokenizer: TextTokenizer, task: str, rows: int
) -> None:
    plain = portion(task, rows)
    filled = fill_up(plain, tokenizer.template)
    assert filled is not None
    batch = collate([filled], tokenizer.template)
    assert batch.tokens & (batch.tokens - 1) == 0
    with torch.inference_mode():
        expected = model(collate([plain], tokenizer.template))[task]
        torch.testing.assert_close(model(batch)[task][:rows], expected)


def test_batches_of_similar_size_are_of_one_kind(tokenizer: TextTokenizer) -> None:
    kinds = set()
    for rows in (9, 11, 14, 16):
        filled = fill_up(portion("single", rows), tokenizer.template)
        assert filled is not None
        kinds.add(collate([filled], tokenizer.template).kind)
    assert len(kinds) <= 2


def test_large_batches_are_not_filled_up(tokenizer: TextTokenizer) -> None:
    tokens = (Ragged.from_rows([[7] * 60] * (LARGEST // 50)),)
    large = Portion("single", "single", tokens, np.arange(len(tokens[0])), max_length=64)
    assert fill_up(large, tokenizer.template) is None


class Computing(Recorder):
    """Compute where a recorder would record; every recording fails."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def prepare(self) -> None:
        pass

    def on_recording_stream(self, work: Callable[[], Any]) -> Any:
        return work()

    def record(self, work: Callable[[], Any]) -> Any:
        raise RuntimeError("no graphs here")

    def recover(self) -> None:
        pass


def test_replaying_stops_at_the_first_failure_and_the_outputs_are_computed(
    model: MultiTaskModel, tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(forward_module, "Recorder", Computing)
    device = torch.device("cpu")
    forward = Forward(OneTask(model), device, nullcontext)
    replayed = ReplayedForward(OneTask(model), device, nullcontext)
    assert (replayed.replay.most, replayed.replay.patience) == (64, 1)
    with torch.inference_mode(), caplog.at_level("INFO"):
        for rows in (3, 3, 3):
            expected = forward(portion("single", rows), tokenizer.template)
            torch.testing.assert_close(replayed(portion("single", rows), tokenizer.template), expected)
    assert replayed.replay.obstacle == "no graphs here"
    assert (replayed.replay.computed, replayed.replay.failures) == (2, 1), "the third is not filled up at all"
    assert [record.message for record in caplog.records] == ["answers are not captured as CUDA graphs: no graphs here"]


def test_a_model_in_training_mode_is_not_replayed(
    model: MultiTaskModel, tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward_module, "Recorder", Computing)
    replayed = ReplayedForward(OneTask(model.train()), torch.device("cpu"), nullcontext)
    replayed(portion("single", 3), tokenizer.template)
    assert replayed.replay.computed == 0


@cuda
@pytest.mark.parametrize("task", ["single", "pair"])
def test_replayed_outputs_equal_computed_ones(model: MultiTaskModel, tokenizer: TextTokenizer, task: str) -> None:
    device = torch.device("cuda")
    model = model.to(device)

    def arithmetic() -> torch.autocast:
        return torch.autocast("cuda", dtype=torch.bfloat16)

    forward, replayed = Forward(OneTask(model), device, arithmetic), ReplayedForward(OneTask(model), device, arithmetic)
    with torch.inference_mode():
        for _ in range(2):
            for rows in (1, 5, 5, 5, 8, 7, 1, 1):
                expected = forward(portion(task, rows), tokenizer.template)
                found = replayed(portion(task, rows), tokenizer.template)
                torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
            with torch.no_grad():
                next(model.heads[task].parameters(), torch.empty(0)).mul_(1.5)  # the weights are read again
    assert replayed.replay.graphs
