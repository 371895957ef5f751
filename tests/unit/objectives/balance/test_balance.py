"""Balances in training: whole steps and steps in pieces, logged, resumed, and with every gradient method."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from palbert.build import check_names
from palbert.errors import RecipeError
from palbert.recipe.load import make_recipe
from palbert.registry import BALANCES, GRADIENTS
from palbert.runtime.run_folder import RunFolder
from palbert.training.hooks import read_records
from palbert.training.trainer import Hook, Trainer
from palbert.verbs import train as verb


@pytest.fixture
def values(tiny_recipe: dict[str, Any]) -> dict[str, Any]:
    """Return a short recipe without dropout whose steps hold all tasks."""
    values = copy.deepcopy(tiny_recipe)
    values["encoder"] |= {"dropout": 0.0, "attention_dropout": 0.0}
    values["tasks"] = {name: {"dropout": 0.0} for name in ("sst", "quora", "sts")}
    values["training"] = {"epochs": 2, "steps_per_epoch": 3, "batch_size": 4, "sampler": "mixed", "log_every": 1}
    return values


@pytest.fixture
def start(values: dict[str, Any], tmp_path: Path) -> Callable[..., Any]:
    """Return a function that builds a run with a balance that is ready to fit."""

    def build(folder: str, **training: Any) -> Any:
        recipe = make_recipe({**values, "training": {**values["training"], **training}})
        return verb.TrainingJob(recipe, RunFolder(tmp_path / folder)).prepare()

    return build


@pytest.fixture(autouse=True)
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the final report: it does not concern balancing."""
    monkeypatch.setattr(verb.TrainingJob, "report", lambda job: None)


def gradient_of_a_step(trainer: Trainer) -> list[Tensor | None]:
    """Take a step that changes no weight; return the gradient that the optimizer received."""
    seen: list[Tensor | None] = []
    trainer.schedule = lambda step, total: 0.0
    trainer.clip = float("inf")
    hook = trainer.optimizer.register_step_pre_hook(lambda *_: seen.extend(p.grad for p in trainer.parameters))
    trainer.step(trainer.feed(("sst", "quora", "sts"), trainer.position.draws))
    hook.remove()
    return seen


def unlike(trainer: Trainer) -> None:
    """Give the parameters of a balance values that differ from their initial ones."""
    for number, parameter in enumerate(trainer.objective.balance.parameters()):
        parameter.data.fill_(0.3 * number - 0.4)


@pytest.mark.parametrize("name", BALANCES)
@pytest.mark.parametrize("gradients", ["sum", "pcgrad"])
def test_a_step_in_pieces_equals_the_whole_step(start: Callable[..., Any], name: str, gradients: str) -> None:
    def run(accumulation: int) -> tuple[list[Tensor | None], dict[str, Tensor]]:
        changes = {"accumulation": accumulation, "gradients": gradients, "balance": name}
        trainer = start(f"{accumulation}", **changes).trainer
        unlike(trainer)
        torch.manual_seed(0)
        gradient_of_a_step(trainer)  # from here on normalised has its means
        return gradient_of_a_step(trainer), trainer.objective.state_dict()

    (pieces, state), (whole, whole_state) = run(3), run(1)
    torch.testing.assert_close(pieces, whole, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(state, whole_state)
    assert all(gradient is not None for gradient in pieces[-3:])


@pytest.mark.parametrize("method", GRADIENTS)
def test_no_gradient_method_mixes_the_task_specific_parameters_of_a_balance(
    start: Callable[..., Any], method: str
) -> None:
    def own(gradients: str) -> list[Tensor | None]:
        trainer = start(gradients, balance="uncertainty", gradients=gradients).trainer
        unlike(trainer)
        return gradient_of_a_step(trainer)[-3:]

    torch.testing.assert_close(own(method), own("sum"))


@pytest.mark.parametrize("name", ["normalised", "uncertainty"])
def test_a_step_without_a_task_does_not_change_its_part_of_the_balance(start: Callable[..., Any], name: str) -> None:
    trainer = start("run", balance=name).trainer

    def state() -> dict[str, list[float]]:
        tensors = trainer.objective.balance.state_dict().values()
        by_task = torch.stack(list(tensors)) if name == "uncertainty" else torch.stack(list(tensors)).t()
        return dict(zip(("sst", "quora", "sts"), by_task.reshape(3, -1).tolist(), strict=True))

    trainer.step(trainer.feed(("sst", "quora", "sts"), trainer.position.draws))
    before = state()
    trainer.step(trainer.feed(("sst",), trainer.position.draws))
    after = state()
    assert [task for task in before if before[task] != after[task]] == ["sst"]


def test_the_log_holds_the_losses_before_balancing_and_the_weights(start: Callable[..., Any]) -> None:
    lines = {}
    for name in BALANCES:
        run = start(name, balance=name)
        assert run.fit()
        lines[name] = [record for record in read_records(run.folder.metrics) if record["kind"] == "train"]
    assert lines["fixed"][0]["losses"] == lines["normalised"][0]["losses"] == lines["uncertainty"][0]["losses"]
    assert "weights" not in lines["fixed"][0]
    first = lines["normalised"][0]
    for task, weight in first["weights"].items():
        assert weight * first["losses"][task] == pytest.approx(1.0, rel=1e-4)
    assert lines["uncertainty"][-1]["weights"] == pytest.approx({"sst": 1.0, "quora": 1.0, "sts": 0.5}, abs=0.02)


@pytest.mark.parametrize("name", ["normalised", "uncertainty"])
@pytest.mark.parametrize("gradients", ["sum", "pcgrad"])
def test_a_run_stopped_and_resumed_ends_with_the_same_weights_and_balance(
    name: str, gradients: str, values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class StopAt4(Hook):
        def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
            trainer.stopping = trainer.position.step == 4

    def files(run: Path) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in (run / "checkpoints" / "last").glob("*.safetensors")}

    values["training"] |= {"balance": name, "gradients": gradients, "accumulation": 2}
    recipe = make_recipe(values)
    whole = verb.train(recipe, out=tmp_path / "whole").path
    original = Trainer.fit
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "fit", lambda self: self.hooks.append(StopAt4()) or original(self))
        with pytest.raises(KeyboardInterrupt):
            verb.train(recipe, out=tmp_path / "cut")
    cut = verb.train(recipe, out=tmp_path / "cut", resume=True).path
    assert files(cut) == files(whole)
    state = load_file(cut / "checkpoints" / "last" / "objective.safetensors")
    assert state and all(bool(value.any()) for value in state.values())


@pytest.mark.parametrize("name", ["normalised", "uncertainty"])
def test_every_set_of_a_task_has_its_own_weight(values: dict[str, Any], tmp_path: Path, name: str) -> None:
    rows = "".join(f"{number}\tfilm number {number}\t{number % 2}\n" for number in range(8))
    (tmp_path / "reviews.tsv").write_text("id\tsentence\tsentiment\n" + rows, "utf-8")
    values["tasks"]["sst"]["extra"] = {
        "cfimdb": {"train": str(tmp_path / "reviews.tsv"), "batch_size": 2, "max_length": 16}
    }
    values["training"] |= {"balance": name, "gradients": "pcgrad"}
    values["optimizer"] = {"learning_rate": 0.01}
    run = verb.train(make_recipe(values), out=tmp_path / "run").path
    last = [record for record in read_records(run / "metrics.jsonl") if record["kind"] == "train"][-1]
    assert list(last["weights"]) == ["sst", "sst+cfimdb", "quora", "sts"]
    assert len(set(last["weights"].values())) == 4


def test_every_phase_has_its_own_balance(values: dict[str, Any], tmp_path: Path) -> None:
    values["training"] |= {"epochs": 1, "balance": "uncertainty"}
    values["phases"] = [{}, {"tasks": ["quora", "sts"], "training": {"balance": "normalised"}}, {"tasks": ["sst"]}]
    run = verb.train(make_recipe(values), out=tmp_path / "run").path
    lines = [record for record in read_records(run / "metrics.jsonl") if record["kind"] == "train"]
    assert [list(line["weights"]) for line in lines] == [["sst", "quora", "sts"]] * 3 + [["quora", "sts"]] * 3 + [
        ["sst"]
    ] * 3


def test_the_noise_of_the_tasks_is_trained_at_the_rate_of_the_heads_without_decay(
    start: Callable[..., Any], values: dict[str, Any]
) -> None:
    values["optimizer"] |= {"head_learning_rate": 0.02}
    run = start("run", balance="uncertainty")
    [group] = [group for group in run.trainer.optimizer.param_groups if group["role"] == "objectives"]
    assert (group["lr"], group["weight_decay"], len(group["params"])) == (0.02, 0.0, 3)


@pytest.mark.parametrize(
    ("balance", "says"),
    [
        ("uncertain", "training.balance: unknown name 'uncertain'. Known: fixed, normalised, uncertainty."),
        ({"name": "normalised", "beta": 1}, "training.balance: beta: expected a number from 0 and below 1, found 1."),
        ({"name": "normalised", "beta": "long"}, "training.balance: beta: expected a number from 0 and below 1, found"),
        ({"name": "normalised", "btea": 0.9}, "Did you mean 'beta'?"),
        ("torch.nn:Identity", "training.balance: 'torch.nn:Identity' is not a balance."),
    ],
)
def test_an_unusable_balance_is_reported(values: dict[str, Any], balance: Any, says: str) -> None:
    with pytest.raises(RecipeError) as caught:
        check_names(make_recipe({**values, "training": {**values["training"], "balance": balance}}))
    assert says in str(caught.value)
