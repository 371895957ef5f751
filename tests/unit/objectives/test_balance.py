"""Balancing: fixed changes nothing, the others scale as their formulas say, in whole steps and in pieces."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from palbert.build import check_names
from palbert.errors import RecipeError
from palbert.objectives import Goal
from palbert.objectives.balance import Fixed, Normalised, Uncertainty
from palbert.recipe.load import make_recipe
from palbert.registry import BALANCES, GRADIENTS, LOSSES
from palbert.runtime.run_folder import RunFolder
from palbert.targets.binary import Binary
from palbert.targets.classes import Classes
from palbert.targets.number import Number
from palbert.training.hooks import read_records
from palbert.training.trainer import Hook, Trainer
from palbert.verbs import train as verb

GOALS = {
    "keys": Goal(Classes(), LOSSES["cross-entropy"], task="sst"),  # names that torch has other uses for
    "type": Goal(Binary(), LOSSES["binary-cross-entropy"], task="sst"),
    "2nd-task": Goal(Number(), LOSSES["mse"], task="sst"),
}
WHOLE = dict.fromkeys(GOALS, 1.0)


def losses_of(*values: float) -> dict[str, Tensor]:
    return {name: torch.tensor(value) for name, value in zip(GOALS, values, strict=False)}


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
    """Return a function that builds a run with a balance, ready to fit."""

    def build(folder: str, **training: Any) -> Any:
        recipe = make_recipe({**values, "training": {**values["training"], **training}})
        return verb.TrainingRun(recipe, RunFolder(tmp_path / folder)).prepare()

    return build


@pytest.fixture(autouse=True)
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the final report: it is not about balancing."""
    monkeypatch.setattr(verb, "evaluate", lambda run: None)


def gradient_of_a_step(trainer: Trainer) -> list[Tensor | None]:
    """Take a step that moves no weight; return the gradient that the optimizer saw."""
    seen: list[Tensor | None] = []
    trainer.schedule = lambda step, total: 0.0
    trainer.clip = float("inf")
    hook = trainer.optimizer.register_step_pre_hook(lambda *_: seen.extend(p.grad for p in trainer.parameters))
    trainer.step(trainer.feed(("sst", "quora", "sts"), trainer.position.draws))
    hook.remove()
    return seen


def unlike(trainer: Trainer) -> None:
    """Give the parameters of a balance values that differ from where they start."""
    for number, parameter in enumerate(trainer.objective.balance.parameters()):
        parameter.data.fill_(0.3 * number - 0.4)


def test_fixed_gives_the_very_losses_and_has_nothing_to_train_or_keep() -> None:
    balance, losses = Fixed(GOALS), losses_of(2.0, 0.5, 9.0)
    found = balance(losses, WHOLE)
    balance.after_step(losses)
    assert all(found[name] is losses[name] for name in GOALS)
    assert (list(balance.parameters()), balance.state_dict(), balance.weights()) == ([], {}, {})


def test_uncertainty_starts_with_the_losses_as_they_are_and_half_of_numbers() -> None:
    found = Uncertainty(GOALS)(losses_of(2.0, 0.5, 9.0), WHOLE)
    assert {name: loss.item() for name, loss in found.items()} == {"keys": 2.0, "type": 0.5, "2nd-task": 4.5}


def test_uncertainty_of_numbers_is_the_likelihood_of_a_normal_distribution() -> None:
    balance = Uncertainty(GOALS)
    outputs, labels = torch.randn(8, 1), torch.randn(8)
    for log_variance in (-1.5, 0.0, 2.0):
        balance.log_variances[2].data.fill_(log_variance)
        loss = LOSSES["mse"](outputs, labels)
        expected = F.gaussian_nll_loss(outputs.squeeze(1), labels, torch.full((8,), log_variance).exp())
        torch.testing.assert_close(balance({"2nd-task": loss}, WHOLE)["2nd-task"], expected)


def test_uncertainty_rests_where_the_weighted_loss_is_a_half() -> None:
    balance, losses = Uncertainty(GOALS), losses_of(2.0, 0.5, 9.0)
    for parameter, rest in zip(balance.log_variances, (2 * 2.0, 2 * 0.5, 9.0), strict=True):
        parameter.data.fill_(float(np.log(rest)))
    torch.stack(list(balance(losses, WHOLE).values())).sum().backward()  # type: ignore[no-untyped-call]
    for parameter in balance.log_variances:
        torch.testing.assert_close(parameter.grad, torch.tensor(0.0), atol=1e-6, rtol=0)
    for name, weight in balance.weights().items():
        assert float(weight * losses[name]) == pytest.approx(0.5)


def test_normalised_divides_by_the_weighted_mean_of_the_losses_before() -> None:
    balance, seen = Normalised(GOALS, beta=0.8), [3.0, 5.0, 4.0, 0.5, 7.0]
    for step, loss in enumerate(seen):
        expected = np.average(seen[:step], weights=0.8 ** np.arange(step)[::-1]) if step else 1.0
        given = {"keys": torch.tensor(loss)}
        assert float(balance(given, WHOLE)["keys"]) == pytest.approx(loss / expected, rel=1e-5)
        balance.after_step(given)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_normalised_losses_are_1_whatever_their_scale(scale: float) -> None:
    balance, losses = Normalised(GOALS), losses_of(2.0 * scale, 0.5 * scale, 9.0 * scale)
    balance.after_step(losses)
    for loss in balance(losses, WHOLE).values():
        assert float(loss) == pytest.approx(1.0, rel=1e-5)


def test_normalised_takes_no_gradient_through_its_mean() -> None:
    balance, weight = Normalised(GOALS), torch.tensor(2.0, requires_grad=True)
    balance.after_step({"keys": torch.tensor(4.0)})
    balance({"keys": weight**2}, WHOLE)["keys"].backward()
    assert float(weight.grad) == pytest.approx(2 * 2.0 / 4.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("loss", [0.0, 1e-40, -1.0, float("nan")])
def test_normalised_leaves_a_loss_alone_whose_mean_cannot_divide(loss: float) -> None:
    balance, losses = Normalised(GOALS), losses_of(loss, 0.5)
    balance.after_step(losses)
    torch.testing.assert_close(balance(losses, WHOLE)["keys"], losses["keys"], equal_nan=True)
    assert float(balance(losses, WHOLE)["type"]) == pytest.approx(1.0)


@pytest.mark.parametrize("name", BALANCES)
@pytest.mark.parametrize("gradients", ["sum", "pcgrad"])
def test_a_step_in_pieces_is_the_whole_step(start: Callable[..., Any], name: str, gradients: str) -> None:
    def run(accumulation: int) -> tuple[list[Tensor | None], dict[str, Tensor]]:
        changes = {"accumulation": accumulation, "gradients": gradients, "balance": name}
        trainer = start(f"{accumulation}", **changes).trainer
        unlike(trainer)
        torch.manual_seed(0)
        gradient_of_a_step(trainer)  # normalised has its means from here on
        return gradient_of_a_step(trainer), trainer.objective.state_dict()

    (pieces, state), (whole, whole_state) = run(3), run(1)
    torch.testing.assert_close(pieces, whole, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(state, whole_state)
    assert all(gradient is not None for gradient in pieces[-3:])


@pytest.mark.parametrize("method", GRADIENTS)
def test_no_gradient_method_mixes_what_the_tasks_have_of_their_own(start: Callable[..., Any], method: str) -> None:
    def own(gradients: str) -> list[Tensor | None]:
        trainer = start(gradients, balance="uncertainty", gradients=gradients).trainer
        unlike(trainer)
        return gradient_of_a_step(trainer)[-3:]

    torch.testing.assert_close(own(method), own("sum"))


@pytest.mark.parametrize("name", ["normalised", "uncertainty"])
def test_a_step_without_a_task_leaves_its_part_of_the_balance_alone(start: Callable[..., Any], name: str) -> None:
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
def test_a_run_that_was_stopped_and_resumed_ends_with_the_same_weights_and_balance(
    name: str, gradients: str, values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class StopAt4(Hook):
        def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
            trainer.stopping = trainer.position.step == 4

    def files(run: Path) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in (run / "checkpoints" / "last").glob("*.safetensors")}

    values["training"] |= {"balance": name, "gradients": gradients, "accumulation": 2}
    recipe = make_recipe(values)
    whole = verb.train(recipe, out=tmp_path / "whole")
    original = Trainer.fit
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "fit", lambda self: self.hooks.append(StopAt4()) or original(self))
        with pytest.raises(KeyboardInterrupt):
            verb.train(recipe, out=tmp_path / "cut")
    cut = verb.train(recipe, out=tmp_path / "cut", resume=True)
    assert files(cut) == files(whole)
    state = load_file(cut / "checkpoints" / "last" / "objective.safetensors")
    assert state and all(bool(value.any()) for value in state.values())


@pytest.mark.parametrize("name", ["normalised", "uncertainty"])
def test_every_set_of_a_task_has_a_weight_of_its_own(values: dict[str, Any], tmp_path: Path, name: str) -> None:
    rows = "".join(f"{number}\tfilm number {number}\t{number % 2}\n" for number in range(8))
    (tmp_path / "reviews.tsv").write_text("id\tsentence\tsentiment\n" + rows, "utf-8")
    values["tasks"]["sst"]["extra"] = {
        "cfimdb": {"train": str(tmp_path / "reviews.tsv"), "batch_size": 2, "max_length": 16}
    }
    values["training"] |= {"balance": name, "gradients": "pcgrad"}
    values["optimizer"] = {"learning_rate": 0.01}
    run = verb.train(make_recipe(values), out=tmp_path / "run")
    last = [record for record in read_records(run / "metrics.jsonl") if record["kind"] == "train"][-1]
    assert list(last["weights"]) == ["sst", "sst+cfimdb", "quora", "sts"]
    assert len(set(last["weights"].values())) == 4


def test_every_phase_has_a_balance_of_its_own(values: dict[str, Any], tmp_path: Path) -> None:
    values["training"] |= {"epochs": 1, "balance": "uncertainty"}
    values["phases"] = [{}, {"tasks": ["quora", "sts"], "training": {"balance": "normalised"}}, {"tasks": ["sst"]}]
    run = verb.train(make_recipe(values), out=tmp_path / "run")
    lines = [record for record in read_records(run / "metrics.jsonl") if record["kind"] == "train"]
    assert [list(line["weights"]) for line in lines] == [["sst", "quora", "sts"]] * 3 + [["quora", "sts"]] * 3 + [
        ["sst"]
    ] * 3


def test_the_noise_of_the_tasks_is_trained_at_the_heads_rate_without_decay(
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
        ("collections:Counter", "training.balance: 'collections:Counter' is not a balance."),
    ],
)
def test_a_balance_that_cannot_be_used_is_told(values: dict[str, Any], balance: Any, says: str) -> None:
    with pytest.raises(RecipeError) as caught:
        check_names(make_recipe({**values, "training": {**values["training"], "balance": balance}}))
    assert says in str(caught.value)
