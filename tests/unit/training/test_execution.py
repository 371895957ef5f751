"""Execution: captured steps give the same run as computed ones, wherever a step can be captured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from palbert.batch import PackedBatch
from palbert.build.trainer import make_execution
from palbert.objectives import Pass, Term
from palbert.runtime.graphs import Recorder
from palbert.runtime.replay import Work
from palbert.runtime.run_folder import RunFolder
from palbert.runtime.seeding import seed_everything
from palbert.training.execution import Eager, Graphs
from palbert.verbs import train as verb
from palbert.verbs.pretrain import PretrainingJob

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
Start = Callable[..., Any]

METHODS: dict[str, dict[str, Any]] = {
    "one task a step": {"training": {"sampler": "round-robin"}},
    "all tasks in a step": {},
    "pal": {"adapters": {"name": "pal", "size": 12, "heads": 2}},
    "lora": {"adapters": {"name": "lora"}},
    "houlsby": {"adapters": {"name": "houlsby"}},
    "relation": {"relation": {"name": "mlp", "tasks": ["quora", "sts"]}},
    "smart": {"objectives": ["smart"]},
    "proximal": {"objectives": ["proximal"]},
    "rdrop": {"objectives": ["rdrop"]},
    "simcse": {"objectives": [{"name": "simcse", "dropout": 0.2}]},
    "pcgrad": {"training": {"gradients": "pcgrad"}},
    "mgda": {"training": {"gradients": "mgda"}},
    "uncertainty": {"training": {"balance": "uncertainty"}},
    "normalised": {"training": {"balance": "normalised"}},
    "ema": {"training": {"average": "ema"}},
    "accumulation": {"training": {"accumulation": 2}},
    "mixout": {"encoder": {"mixout": 0.5}},
    "frozen": {"encoder": {"frozen": True}},
    "recompute": {"encoder": {"recompute": True}},
    "recompute, pal and pcgrad": {
        "encoder": {"recompute": True},
        "adapters": {"name": "pal", "size": 12, "heads": 2},
        "training": {"gradients": "pcgrad"},
    },
    "fp32": {"run": {"precision": "fp32"}},
    "tf32": {"run": {"precision": "tf32"}},
    "fp16": {"run": {"precision": "fp16"}},
}
LONG: dict[str, dict[str, Any]] = {
    "training": {"epochs": 1, "steps_per_epoch": 24, "sampler": "mixed"},
    "run": {"device": "auto"},
}


def merged(settings: dict[str, Any]) -> dict[str, Any]:
    """Merge a method's settings into those of the test run."""
    both = {**LONG, **settings}
    return {key: {**LONG[key], **both[key]} if key in LONG else both[key] for key in both}


def fitted(run: Any) -> tuple[list[dict[str, float]], list[torch.Tensor]]:
    """Take the steps of a run; return its losses and weights."""
    seed_everything(5)
    trainer = run.trainer
    trainer.model.train()
    losses = []
    for number, sets in enumerate(trainer.sampler.epoch(1)):
        found = trainer.step(trainer.feed(sets, dict.fromkeys(sets, number // 3 % 2)))  # shapes repeat
        losses.append({name: float(loss) for name, loss in found.items()})
        trainer.position.step += 1
    return losses, [parameter.detach().clone() for parameter in trainer.average.model.parameters()]


@cuda
@pytest.mark.parametrize("method", METHODS)
def test_captured_steps_equal_computed_ones(start: Start, method: str) -> None:
    captured, computed = start("captured", **merged(METHODS[method])), start("computed", **merged(METHODS[method]))
    computed.trainer.execution = Eager(computed.machine.device)
    losses, weights = fitted(captured)
    expected_losses, expected_weights = fitted(computed)
    execution = captured.trainer.execution
    assert execution.replay.replayed > len(losses) / 2, execution.summary()
    for found, expected in zip(losses, expected_losses, strict=True):
        assert found == pytest.approx(expected, rel=1e-5)
    for one, other in zip(weights, expected_weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)


@cuda
def test_further_pretraining_is_captured_too(recipe: Callable[..., Any], tmp_path: Path) -> None:
    settings = {"pretraining": {"epochs": 1, "steps_per_epoch": 24, "batch_size": 8}, "run": {"device": "auto"}}
    made = [PretrainingJob(recipe(**settings), RunFolder(tmp_path / name)).prepare() for name in ("one", "other")]
    captured, computed = (each.trainer for each in made)
    assert isinstance(captured.execution, Graphs)
    computed.execution = Eager(computed.feed.device)
    found = []
    for trainer in (captured, computed):
        seed_everything(5)
        trainer.model.train()
        losses = []
        for number, sets in enumerate(trainer.sampler.epoch(1)):
            losses.append(float(trainer.step(trainer.feed(sets, dict.fromkeys(sets, number % 2)))["mlm"]))
            trainer.position.step += 1
        found.append(losses)
    assert captured.execution.replay.replayed > 12, captured.execution.summary()
    assert found[0] == pytest.approx(found[1], rel=1e-5)


@cuda
def test_replays_are_not_disturbed_by_larger_batches_in_between(start: Start) -> None:
    settings = merged({"training": {"sampler": "round-robin"}})
    captured, computed = start("captured", **settings), start("computed", **settings)
    computed.trainer.execution = Eager(computed.machine.device)
    found = []
    for run in (captured, computed):
        seed_everything(5)
        trainer = run.trainer
        trainer.model.train()
        losses = []
        for sets in [("sst",)] * 3 + [("sst", "quora", "sts")] + [("sst",)] * 3:
            losses.append(float(trainer.step(trainer.feed(sets, dict.fromkeys(sets, 0)))["sst"]))
            torch.full((2**20,), torch.nan, device="cuda")  # overwrites memory that was given back
        found.append((losses, torch.cat([parameter.detach().flatten() for parameter in run.model.parameters()])))
    (losses, weights), (expected_losses, expected_weights) = found
    assert captured.trainer.execution.replay.replayed == 5
    assert losses == pytest.approx(expected_losses, rel=1e-5)
    torch.testing.assert_close(weights, expected_weights, rtol=1e-5, atol=1e-7)


@cuda
def test_dropout_and_rates_differ_from_replay_to_replay(start: Start) -> None:
    run = start(**merged({"optimizer": {"learning_rate": 1e-3, "schedule": "constant"}}))
    trainer = run.trainer
    trainer.model.train()
    trainer.schedule = lambda step, total: 0.0  # the weights do not change: only dropout differs
    sets = ("sst", "quora", "sts")
    batches = trainer.feed(sets, dict.fromkeys(sets, 0))
    losses = [float(trainer.step(batches)["sst"]) for _ in range(6)]
    assert trainer.execution.replay.replayed == 5
    assert len(set(losses)) == 6
    before = [parameter.detach().clone() for parameter in run.model.parameters()]
    trainer.step(batches)
    assert all(torch.equal(one, other) for one, other in zip(before, run.model.parameters(), strict=True))
    trainer.schedule = lambda step, total: 1.0
    trainer.step(batches)
    assert trainer.execution.replay.replayed == 7
    assert not all(torch.equal(one, other) for one, other in zip(before, run.model.parameters(), strict=True))


@cuda
@pytest.mark.parametrize("captures", [("auto", "off"), ("off", "auto"), ("auto", "auto")])
def test_a_run_can_be_resumed_with_captured_or_computed_steps(
    recipe: Callable[..., Any], tmp_path: Path, captures: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"training": {"epochs": 2, "steps_per_epoch": 12, "sampler": "mixed"}}

    def run(folder: str, *, resume: bool, capture: str, stop: int | None = None) -> list[torch.Tensor]:
        made = verb.TrainingJob(
            recipe(**settings, run={"device": "auto", "capture": capture}), RunFolder(tmp_path / folder), resume=resume
        ).prepare()
        if stop:
            step = made.trainer.step

            def counted(batches: Any) -> Any:
                made.trainer.stopping = made.trainer.position.step + 1 >= stop
                return step(batches)

            monkeypatch.setattr(made.trainer, "step", counted)
        made.fit()
        return [parameter.detach().clone() for parameter in made.model.parameters()]

    whole = verb.TrainingJob(recipe(**settings, run={"device": "auto"}), RunFolder(tmp_path / "whole")).prepare()
    whole.fit()
    first, second = captures
    run("cut", resume=False, capture=first, stop=7)
    resumed = run("cut", resume=True, capture=second)
    for one, other in zip(whole.model.parameters(), resumed, strict=True):
        torch.testing.assert_close(one.detach(), other, rtol=1e-5, atol=1e-7)


@cuda
def test_evaluation_between_steps_does_not_change_them(start: Start) -> None:
    plain, evaluated = start("plain", **merged({})), start("evaluated", **merged({}))
    step = evaluated.trainer.step

    def and_evaluate(batches: Any) -> Any:
        losses = step(batches)
        evaluated.trainer.evaluate(evaluated.model, epoch=1, step=1)
        return losses

    evaluated.trainer.step = and_evaluate
    assert fitted(plain)[0] == fitted(evaluated)[0]


class Waiting(Term):
    """A term that reads a number from the device in every step."""

    def __init__(self, goals: Any) -> None:
        super().__init__(goals, weight=1.0)

    def values(self, model: Any, batch: Any, forward_pass: Pass) -> dict[str, torch.Tensor]:
        """Return values that depend on a number read from the device."""
        outputs = forward_pass.outputs
        return {task: outputs[task].sum() * float(outputs[task].mean() > 1e9) for task in batch.parts}


@cuda
def test_a_step_that_waits_for_the_device_is_computed_and_the_log_shows_where_it_waits(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from palbert.registry import OBJECTIVES

    monkeypatch.setitem(OBJECTIVES.paths, "smart", f"{__name__}:Waiting")
    run = start(**merged({"objectives": ["smart"]}))
    with caplog.at_level("INFO"):
        losses, _ = fitted(run)
    assert len(losses) == 24
    assert run.trainer.execution.replay.replayed == 0
    assert "test_execution.py" in run.trainer.execution.summary()
    assert [record.message for record in caplog.records if "not captured" in record.message] == [
        f"steps are not captured as CUDA graphs: {run.trainer.execution.obstacle}"
    ]


def test_computed_steps_run_the_decisions_of_the_host_in_order() -> None:
    done: list[str] = []

    def update(batches: Sequence[PackedBatch]) -> Work:
        done.append(f"{len(batches)} batches on {batches[0].ids.device}")
        yield lambda: done.append("decision")
        done.append("move")
        return {"sst": torch.tensor(2.0)}

    ids = torch.zeros(1, dtype=torch.int64)
    batch = PackedBatch(ids, ids, ids, torch.tensor([0, 1], dtype=torch.int32), max_length=1)
    losses = Eager(torch.device("cpu"))(update, [batch])
    assert losses == {"sst": torch.tensor(2.0)}
    assert done == ["1 batches on cpu", "decision", "move"]
    assert Eager(torch.device("cpu")).summary() == ""


class Immediate(Recorder):
    """Compute on the CPU while recording, so that the first replay is a no-op."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.recorded = 0

    def prepare(self) -> None:
        pass

    def on_recording_stream(self, work: Callable[[], Any]) -> Any:
        return work()

    def record(self, work: Callable[[], Any]) -> Any:
        self.recorded += 1
        return SimpleNamespace(replay=lambda: None), work()


@pytest.mark.parametrize(("gradients", "graphs"), [("sum", 1), ("pcgrad", 2)])
def test_a_recorded_step_equals_a_computed_one(
    start: Start, monkeypatch: pytest.MonkeyPatch, gradients: str, graphs: int
) -> None:
    if gradients == "pcgrad":
        pytest.importorskip("torchjd")
    monkeypatch.setattr("palbert.training.execution.StepRecorder", Immediate)
    found = []
    captured = Graphs(torch.device("cpu"))
    for execution in (captured, Eager(torch.device("cpu"))):
        run = start(type(execution).__name__, training={"sampler": "mixed", "gradients": gradients})
        trainer = run.trainer
        trainer.execution = execution
        seed_everything(5)
        trainer.model.train()
        sets = ("sst", "quora", "sts")
        losses = [trainer.step(trainer.feed(sets, dict.fromkeys(sets, 0))) for _ in range(2)]  # computed, recorded
        weights = torch.cat([parameter.detach().flatten() for parameter in trainer.model.parameters()])
        found.append(([{name: float(loss) for name, loss in step.items()} for step in losses], weights))
    (losses, weights), (expected_losses, expected_weights) = found
    assert losses == expected_losses and torch.equal(weights, expected_weights)
    assert isinstance(captured.replay.recorder, Immediate) and captured.replay.recorder.recorded == graphs


def test_the_summary_says_how_steps_were_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palbert.training.execution.StepRecorder", lambda device: None)
    execution = Graphs(torch.device("cuda"))
    assert (execution.replay.most, execution.replay.patience) == (64, 3)
    execution.replay.computed, execution.replay.replayed, execution.replay.seconds = 5, 1995, 2.34
    assert execution.summary() == "1,995 of 2,000 steps replayed from 0 CUDA graphs, captured in 2.3 s"
    execution.replay.obstacle = "term.py:7 makes the host wait for the device"
    assert execution.summary() == "5 steps computed without CUDA graphs: term.py:7 makes the host wait for the device"


def test_steps_are_computed_without_cuda_or_on_request(recipe: Callable[..., Any]) -> None:
    assert type(make_execution(recipe(), torch.device("cpu"))) is Eager
    off = recipe(run={"capture": "off"})
    assert type(make_execution(off, torch.device("cuda"))) is Eager


@cuda
def test_steps_are_captured_on_cuda(recipe: Callable[..., Any]) -> None:
    assert type(make_execution(recipe(), torch.device("cuda"))) is Graphs
