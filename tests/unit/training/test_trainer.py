"""The training loop: same seed, same run; stopped and resumed, the same run."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from palbert.errors import RecipeError, RunFolderError, TrainingError
from palbert.gradients import GradientMethod
from palbert.recipe.schema import Recipe
from palbert.registry import LOSSES, SAMPLERS, SCHEDULES
from palbert.training.hooks import read_records
from palbert.training.trainer import Evaluation, Hook, Trainer
from palbert.verbs import train as verb

MakeRecipe = Callable[..., Recipe]
Start = Callable[..., Any]
TIMES = ("seconds", "tokens_per_second", "waited")


@pytest.fixture(autouse=True)
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the final report: it does not belong to the trainer."""
    monkeypatch.setattr(verb.TrainingJob, "report", lambda job: None)


def state_of(run: Path, name: str = "last") -> dict[str, Any]:
    """Return everything in a checkpoint except times."""
    folder = run / "checkpoints" / name
    tensors = {
        f"{file.name}/{key}": value.tolist()
        for file in folder.glob("*.safetensors")
        for key, value in load_file(file).items()
    }
    facts = json.loads((folder / "trainer.json").read_text()) if (folder / "trainer.json").exists() else {}
    for name in ("seconds", "elapsed"):
        facts.get("position", {}).pop(name, None)
    return {**tensors, **facts, **json.loads((folder / "palbert.json").read_text())}


def records_of(run: Path) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl without times."""
    return [{k: v for k, v in record.items() if k not in TIMES} for record in read_records(run / "metrics.jsonl")]


def interrupt_at(monkeypatch: pytest.MonkeyPatch, number: int, how: Callable[[], object]) -> None:
    """Do something in the middle of a step."""
    original = Trainer.step

    def step(self: Trainer, batches: Any) -> Any:
        if self.position.step + 1 == number:
            how()
        return original(self, batches)

    monkeypatch.setattr(Trainer, "step", step)


def press_control_c() -> None:
    signal.raise_signal(signal.SIGINT)


def crash() -> None:
    raise RuntimeError("power cut")


class Ordered(GradientMethod):
    """Sum the gradients, ask the host to decide, and record the order of calls."""

    def __init__(self, done: list[str]) -> None:
        self.done = done

    def clear(self) -> None:
        self.done.append("clear")

    @contextmanager
    def forward_context(self) -> Iterator[None]:
        self.done.append("losses")
        yield

    def backward(self, losses: Mapping[str, torch.Tensor]) -> None:
        self.done.append("gradients of " + " ".join(losses))
        torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]

    def compare(self) -> str:
        self.done.append("compare")
        return "question"

    def decide(self, question: str) -> None:
        self.done.append(f"decide {question}")

    def combine(self) -> None:
        self.done.append("combine")


def test_the_parts_of_a_step_run_in_order(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer: Trainer = start(training={"sampler": "mixed", "accumulation": 2}).trainer
    done: list[str] = []
    trainer.gradients = Ordered(done)
    balance = trainer.objective.balance
    balance.register_forward_pre_hook(lambda *_: done.append("balance"))
    monkeypatch.setattr("palbert.training.trainer.clip_gradients", lambda *_: done.append("clip") or torch.tensor(1.0))
    trainer.optimizer.register_step_pre_hook(lambda *_: done.append("move"))
    monkeypatch.setattr(trainer.objective, "after_step", lambda *_: done.append("after step"))
    monkeypatch.setattr(trainer.average, "update", lambda step, total: done.append(f"average {step} of {total}"))
    trainer.step(trainer.feed(("sst", "sts"), {"sst": 0, "sts": 0}))
    batch = ["losses", "balance", "gradients of sst sts"]
    decided = ["compare", "decide question", "combine"]
    assert done == ["clear", *batch, *batch, *decided, "clip", "move", "after step", "average 1 of 12"]


def test_the_same_seed_gives_the_same_run_bit_by_bit(recipe: MakeRecipe, tmp_path: Path) -> None:
    runs = [verb.train(recipe(), out=tmp_path / name).path for name in ("one", "two")]
    assert state_of(runs[0]) == state_of(runs[1])
    assert records_of(runs[0]) == records_of(runs[1])


def test_another_seed_gives_another_run(recipe: MakeRecipe, tmp_path: Path) -> None:
    runs = [verb.train(recipe(seed=seed), out=tmp_path / f"{seed}").path for seed in (1, 2)]
    assert records_of(runs[0])[1:] != records_of(runs[1])[1:]


def test_training_lowers_the_loss(recipe: MakeRecipe, tmp_path: Path) -> None:
    changes = {"tasks": {"sts": {}}, "training": {"steps_per_epoch": 20, "log_every": 20}}
    run = verb.train(recipe(**{**changes, "optimizer": {"learning_rate": 3e-3}}), out=tmp_path / "run").path
    losses = [record["losses"]["sts"] for record in records_of(run) if record["kind"] == "train"]
    assert losses[-1] < 0.6 * losses[0]


# Six steps per epoch, a line every fourth: runs stop at the first step, between lines, at a line, at the end of
# an epoch, in the second epoch, and at the very last step.
@pytest.mark.parametrize("stop", [1, 3, 4, 6, 9, 12])
def test_a_run_stopped_and_resumed_equals_an_uninterrupted_one(
    recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    chosen = recipe(training={"log_every": 4}, optimizer={"schedule": "stlr"})
    whole = verb.train(chosen, out=tmp_path / "whole").path
    with monkeypatch.context() as patch:
        interrupt_at(patch, stop, press_control_c)
        with pytest.raises(KeyboardInterrupt):
            verb.train(chosen, out=tmp_path / "stopped")
    stopped = tmp_path / "stopped"
    assert state_of(stopped)["position"]["step"] == stop
    assert records_of(stopped)[-1]["step"] == stop
    verb.train(chosen, out=stopped, resume=True)
    assert state_of(stopped) == state_of(whole)
    assert state_of(stopped, "best") == state_of(whole, "best")
    assert records_of(stopped) == records_of(whole)


# Six steps per epoch, evaluations after steps 4, 6, 8 and 12: runs stop before, at and after evaluations within epochs.
@pytest.mark.parametrize("stop", [3, 4, 5, 8, 9, 12])
@pytest.mark.parametrize("average", ["none", "ema"])
def test_a_run_with_evaluations_within_epochs_resumes_exactly(
    recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int, average: str
) -> None:
    chosen = recipe(training={"log_every": 5, "evaluate_every": 4, "average": average, "patience": 50})
    whole = verb.train(chosen, out=tmp_path / "whole").path
    evaluations = [record for record in records_of(whole) if record["kind"] == "evaluation"]
    assert [(record["epoch"], record["step"]) for record in evaluations] == [
        (0, 0), (pytest.approx(4 / 6), 4), (1, 6), (pytest.approx(8 / 6), 8), (2, 12),
    ]  # fmt: skip
    with monkeypatch.context() as patch:
        interrupt_at(patch, stop, press_control_c)
        with pytest.raises(KeyboardInterrupt):
            verb.train(chosen, out=tmp_path / "stopped")
    verb.train(chosen, out=tmp_path / "stopped", resume=True)
    assert state_of(tmp_path / "stopped") == state_of(whole)
    assert state_of(tmp_path / "stopped", "best") == state_of(whole, "best")
    assert records_of(tmp_path / "stopped") == records_of(whole)


@pytest.mark.parametrize("crashing", [5, 9])
def test_a_run_that_crashes_after_an_evaluation_within_an_epoch_does_not_repeat_its_line(
    recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crashing: int
) -> None:
    chosen = recipe(training={"log_every": 2, "evaluate_every": 4, "save_every": 4})
    whole = verb.train(chosen, out=tmp_path / "whole").path
    with monkeypatch.context() as patch:
        interrupt_at(patch, crashing, crash)
        with pytest.raises(RuntimeError, match="power cut"):
            verb.train(chosen, out=tmp_path / "crashed")
    assert state_of(tmp_path / "crashed")["position"]["step"] == crashing - 1
    verb.train(chosen, out=tmp_path / "crashed", resume=True)
    assert records_of(tmp_path / "crashed") == records_of(whole)


def test_evaluations_within_epochs_do_not_change_the_weights(recipe: MakeRecipe, tmp_path: Path) -> None:
    often = verb.train(recipe(training={"evaluate_every": 1}), out=tmp_path / "often").path
    seldom = verb.train(recipe(), out=tmp_path / "seldom").path
    weights = [load_file(run / "checkpoints" / "last" / "model.safetensors") for run in (often, seldom)]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    lines = [[record for record in records_of(run) if record["kind"] == "train"] for run in (often, seldom)]
    assert lines[0] == lines[1]
    whole = [
        [record for record in records_of(run) if record["kind"] == "evaluation" and record["epoch"] % 1 == 0]
        for run in (often, seldom)
    ]
    assert whole[0] == whole[1]


# The sample sets have about 400 rows each, sts the most: epochs of 5 and 12 steps in batches of 100, of 3 and 6 in 200.
@pytest.mark.parametrize(
    ("training", "stop", "steps"),
    [
        ({"sampler": "mixed"}, 4, 12),
        ({"sampler": "sequential"}, 5, 12),
        ({"sampler": {"name": "temperature", "factors": {"quora": 0.5}}}, 7, 12),
        ({"sampler": "adaptive-round-robin", "steps_per_epoch": None, "batch_size": 100}, 3, 5 + 12),
        ({"sampler": "adaptive-round-robin", "steps_per_epoch": None, "batch_size": 200}, 6, 3 + 6),
    ],
)
def test_a_run_of_any_sampler_stopped_and_resumed_equals_an_uninterrupted_one(
    recipe: MakeRecipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    training: dict[str, Any],
    stop: int,
    steps: int,
) -> None:
    chosen = recipe(training={"log_every": 4, **training}, optimizer={"schedule": "cosine", "layer_decay": 0.8})
    whole = verb.train(chosen, out=tmp_path / "whole").path
    with monkeypatch.context() as patch:
        interrupt_at(patch, stop, press_control_c)
        with pytest.raises(KeyboardInterrupt):
            verb.train(chosen, out=tmp_path / "stopped")
    verb.train(chosen, out=tmp_path / "stopped", resume=True)
    assert state_of(whole)["position"]["step"] == steps
    assert state_of(tmp_path / "stopped") == state_of(whole)
    assert records_of(tmp_path / "stopped") == records_of(whole)
    assert {record["step"] for record in records_of(whole) if record["kind"] == "train"} >= {4, 8, steps}


@pytest.mark.parametrize("step", [6, 8, 12])
def test_a_crashed_run_continues_from_its_last_checkpoint(
    recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    chosen = recipe(training={"log_every": 2, "save_every": 5})
    whole = verb.train(chosen, out=tmp_path / "whole").path
    with monkeypatch.context() as patch:
        interrupt_at(patch, step, crash)
        with pytest.raises(RuntimeError, match="power cut"):
            verb.train(chosen, out=tmp_path / "crashed")
    crashed = tmp_path / "crashed"
    assert state_of(crashed)["position"]["step"] == {6: 5, 8: 6, 12: 10}[step]
    with (crashed / "metrics.jsonl").open("a") as stream:
        stream.write('{"kind": "train", "st')  # a partial line
    verb.train(chosen, out=crashed, resume=True)
    assert state_of(crashed) == state_of(whole)
    assert records_of(crashed) == records_of(whole)


def test_resuming_with_other_settings_is_refused(
    recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_at(monkeypatch, 2, press_control_c)
    with pytest.raises(KeyboardInterrupt):
        verb.train(recipe(), out=tmp_path / "run")
    with pytest.raises(RecipeError, match=r"other settings.*optimizer\.learning_rate"):
        verb.train(recipe(optimizer={"learning_rate": 2e-3}), out=tmp_path / "run", resume=True)
    with pytest.raises(RecipeError, match=r"other settings.*run\.precision"):
        verb.train(recipe(run={"precision": "fp32"}), out=tmp_path / "run", resume=True)


def test_a_finished_run_is_not_overwritten(recipe: MakeRecipe, tmp_path: Path) -> None:
    run = verb.train(recipe(), out=tmp_path / "run").path
    before = records_of(run)
    with pytest.raises(RunFolderError, match="already holds a run"):
        verb.train(recipe(seed=2), out=run)
    assert records_of(run) == before
    verb.train(recipe(), out=run, resume=True)
    assert records_of(run) == before


def test_a_loss_of_nan_ends_the_run_with_exit_code_1(
    recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = LOSSES["mse"]
    broken = "palbert.objectives.losses.mean_squared_error"
    monkeypatch.setattr(broken, lambda outputs, labels: good(outputs, labels) * float("nan"))
    with pytest.raises(TrainingError, match=r"The loss of 'sts' became nan at step \d+; .*learning_rate") as caught:
        verb.train(recipe(tasks={"sst": {}, "quora": {}, "sts": {}}), out=tmp_path / "run")
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_the_schedule_reaches_the_optimizer(recipe: MakeRecipe, tmp_path: Path, name: str) -> None:
    rates = {"learning_rate": 1e-4, "head_learning_rate": 1e-3, "schedule": name}
    run = verb.train(recipe(optimizer=rates, training={"log_every": 1}), out=tmp_path / "run").path
    schedule, lines = SCHEDULES[name](), [record for record in records_of(run) if record["kind"] == "train"]
    assert len(lines) == 12
    for line in lines:
        factor = schedule(line["step"] - 1, 12)
        assert line["learning_rate"] == pytest.approx({"encoder": 1e-4 * factor, "heads": 1e-3 * factor})


def test_a_rate_of_0_changes_nothing(start: Start) -> None:
    run = start()
    before = [parameter.detach().clone() for parameter in run.model.parameters()]
    run.trainer.schedule = lambda step, total: 0.0
    run.trainer.step(run.trainer.feed(("sst",), {"sst": 0}))
    assert all(torch.equal(a, b) for a, b in zip(before, run.model.parameters(), strict=True))


@pytest.mark.parametrize("clip", [1e-3, 0.1, float("inf")])
def test_gradients_are_clipped_to_the_given_norm(start: Start, clip: float) -> None:
    def norm(trainer: Trainer) -> float:
        """Take one step and return the norm of the gradient that the optimizer received: m = (1 − β₁) g."""
        trainer.step(trainer.feed(("sts",), {"sts": 0}))
        moments = [state["exp_avg"].flatten() for state in trainer.optimizer.state.values()]
        return float(torch.cat(moments).norm() / (1 - trainer.optimizer.defaults["betas"][0]))

    unclipped = norm(start("free", training={"clip": float("inf")}).trainer)
    assert unclipped > 0.1
    assert norm(start("clipped", training={"clip": clip}).trainer) == pytest.approx(min(clip, unclipped), rel=1e-3)


def test_a_step_leaves_no_gradient_behind(start: Start) -> None:
    trainer = start().trainer
    trainer.step(trainer.feed(("sst",), {"sst": 0}))
    assert all(parameter.grad is None for parameter in trainer.parameters)


@pytest.mark.parametrize("pieces", [2, 3])
def test_accumulation_does_not_change_the_step(start: Start, pieces: int) -> None:
    def loss_and_gradient(accumulation: int) -> tuple[float, torch.Tensor]:
        changes = {"training": {"accumulation": accumulation, "clip": float("inf")}}
        still = {"tasks": {"sts": {"dropout": 0.0}}}
        run = start(f"{accumulation}", **changes, **still)
        run.model.eval()  # no dropout
        batches = run.trainer.feed(("sts",), {"sts": 0})
        assert len(batches) == accumulation
        total = 0.0
        for batch in batches:
            losses = run.trainer.objective(run.model, batch)
            run.trainer.gradients.backward(losses)
            total += losses["sts"].item()
        return total, torch.cat([p.grad.flatten() for p in run.trainer.parameters if p.grad is not None])

    (loss, gradient), (whole_loss, whole) = loss_and_gradient(pieces), loss_and_gradient(1)
    assert loss == pytest.approx(whole_loss, rel=1e-5)
    torch.testing.assert_close(gradient, whole, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("sampler", sorted(SAMPLERS))
def test_the_drawn_tasks_match_the_plan(start: Start, sampler: str) -> None:
    run = start(training={"sampler": sampler, "log_every": 4})
    assert run.fit()
    plan = run.trainer.sampler
    epochs = [record for record in records_of(run.folder.path) if record["kind"] == "epoch"]
    assert [record["epoch"] for record in epochs] == [1, 2]
    total: Counter[str] = Counter()
    for record in epochs:
        counted = Counter(task for step in plan.epoch(record["epoch"]) for task in step)
        assert record["drawn"] == {task: counted[task] for task in ("sst", "quora", "sts")}
        assert record["planned"] == pytest.approx(plan.planned(record["epoch"]), abs=0.006)
        total += counted
    sizes = {name: each.batch_size for name, each in run.trainer.feed.sets.items()}
    assert run.trainer.position.draws == {task: total[task] * sizes[task] for task in ("sst", "quora", "sts")}


def test_a_mixed_step_equals_the_sum_of_single_ones_in_one_encoder_pass(start: Start) -> None:
    weights = {"sst": 1.0, "quora": 0.5, "sts": 2.0}
    changes = {
        "encoder": {"dropout": 0.0, "attention_dropout": 0.0},
        "tasks": {task: {"weight": weight, "dropout": 0.0} for task, weight in weights.items()},
        "training": {"sampler": "mixed", "clip": float("inf")},
    }
    passes: list[int] = []

    def step(trainer: Trainer, tasks: tuple[str, ...]) -> tuple[dict[str, float], torch.Tensor]:
        """Take one step; return the losses and the gradient that the optimizer received."""
        seen: list[torch.Tensor] = []
        trainer.schedule = lambda step, total: 0.0  # the weights do not change
        hook = trainer.optimizer.register_step_pre_hook(
            lambda *_: seen.extend(torch.zeros_like(p) if p.grad is None else p.grad for p in trainer.parameters)
        )
        losses = trainer.step(trainer.feed(tasks, trainer.position.draws))
        hook.remove()
        return {task: float(loss) for task, loss in losses.items()}, torch.cat([each.flatten() for each in seen])

    run = start(**changes)
    run.model.encoder.register_forward_hook(lambda *_: passes.append(1))
    run.model.train()
    (tasks,) = set(run.trainer.sampler.epoch(1))
    losses, gradient = step(run.trainer, tasks)
    assert len(passes) == 1
    single = [step(run.trainer, (task,)) for task in weights]
    assert losses == pytest.approx({task: loss for alone, _ in single for task, loss in alone.items()}, rel=1e-5)
    torch.testing.assert_close(gradient, sum(alone for _, alone in single), rtol=1e-4, atol=1e-6)


class Diary(Hook):
    """Record what happens."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def on_start(self, trainer: Trainer) -> None:
        self.entries.append("start")

    def on_step(self, trainer: Trainer, losses: dict[str, torch.Tensor], tokens: int) -> None:
        assert trainer.model.training
        assert tokens > 0
        self.entries.append(f"step {trainer.position.step}")

    def on_evaluation(self, trainer: Trainer, evaluation: Evaluation) -> None:
        if evaluation.ends_epoch:
            assert (trainer.position.epoch, trainer.position.done) == (evaluation.epoch + 1, 0)
        self.entries.append(f"epoch {evaluation.epoch} at {evaluation.step}")

    def on_stop(self, trainer: Trainer) -> None:
        self.entries.append("stop")

    def on_end(self, trainer: Trainer) -> None:
        self.entries.append("end")


def trainer_with_diary(start: Start) -> tuple[Trainer, Diary]:
    trainer, diary = start(training={"steps_per_epoch": 2}).trainer, Diary()
    trainer.hooks = [diary]
    return trainer, diary


def test_hooks_see_the_run_in_order(start: Start) -> None:
    trainer, diary = trainer_with_diary(start)
    assert trainer.fit()
    assert diary.entries == ["start", "step 1", "step 2", "epoch 1 at 2", "step 3", "step 4", "epoch 2 at 4", "end"]


def test_hooks_see_a_run_that_is_stopped(start: Start) -> None:
    trainer, diary = trainer_with_diary(start)
    trainer.stopping = True
    assert not trainer.fit()
    assert diary.entries == ["start", "step 1", "stop", "end"]


class FinishAt(Hook):
    """Finish at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, trainer: Trainer, losses: dict[str, torch.Tensor], tokens: int) -> None:
        if trainer.position.step == self.step:
            trainer.finish("enough")
            trainer.finish("more than enough")


@pytest.mark.parametrize(
    ("step", "entries"),
    [
        (1, ["step 1", "epoch 0.5 at 1"]),
        (2, ["step 1", "step 2", "epoch 1 at 2"]),
        (3, ["step 1", "step 2", "epoch 1 at 2", "step 3", "epoch 1.5 at 3"]),
    ],
)
def test_a_run_that_finishes_early_is_evaluated_where_it_is(start: Start, step: int, entries: list[str]) -> None:
    trainer, diary = trainer_with_diary(start)
    trainer.hooks = [FinishAt(step), diary]
    assert trainer.fit()
    assert diary.entries == ["start", *entries, "end"]
    assert trainer.finishing and trainer.reason == "enough"


def test_a_reason_in_the_last_step_does_not_make_a_run_early(start: Start) -> None:
    trainer, diary = trainer_with_diary(start)
    trainer.hooks = [FinishAt(4), diary]
    assert trainer.fit() and not trainer.finishing
    assert diary.entries[-2:] == ["epoch 2 at 4", "end"]


def test_hooks_see_the_end_of_a_run_that_fails(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, diary = trainer_with_diary(start)
    interrupt_at(monkeypatch, 2, crash)
    with pytest.raises(RuntimeError, match="power cut"):
        trainer.fit()
    assert diary.entries == ["start", "step 1", "end"]


def test_a_hook_that_cannot_start_ends_those_that_have(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, diary = trainer_with_diary(start)
    broken = Hook()
    monkeypatch.setattr(broken, "on_start", lambda trainer: crash())
    trainer.hooks.append(broken)
    with pytest.raises(RuntimeError, match="power cut"):
        trainer.fit()
    assert diary.entries == ["start", "end"]


def test_a_frozen_encoder_does_not_change(start: Start) -> None:
    run = start(encoder={"frozen": True})
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    assert run.fit()
    changed = {
        name.split(".")[0] for name, value in run.model.state_dict().items() if not torch.equal(value, before[name])
    }
    assert changed == {"heads"}


def test_deterministic_mode_gives_the_same_weights_on_the_cpu(start: Any) -> None:
    found = []
    for asked in (False, True):
        run = start(f"deterministic-{asked}", run={"deterministic": asked})
        assert run.fit()
        found.append([value.detach().clone() for value in run.trainer.parameters])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
