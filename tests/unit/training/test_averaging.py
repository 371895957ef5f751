"""Averages: they follow their formulas, they are evaluated and saved, and training does not depend on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import palbert
from palbert.build import check_names
from palbert.errors import CheckpointError, RecipeError
from palbert.recipe.load import make_recipe
from palbert.recipe.schema import Recipe
from palbert.runtime.checksums import record_folder
from palbert.training.averaging import EMA, SWA, Average, NoAverage
from palbert.training.hooks import read_records
from palbert.training.trainer import Hook, Trainer
from palbert.verbs import train as verb

MakeRecipe = Callable[..., Recipe]
Start = Callable[..., Any]
Weights = dict[str, Tensor]

QUICK = {"name": "ema", "decay": 0.8}


@pytest.fixture(autouse=True)
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the final report: it does not concern averages."""
    monkeypatch.setattr(verb.TrainingJob, "report", lambda job: None)


class Recorder(Hook):
    """Keep the weights after each step."""

    def __init__(self) -> None:
        self.weights: list[Weights] = []

    def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
        self.weights.append({name: value.clone() for name, value in trainer.model.state_dict().items()})


def trained(run: Any) -> list[Weights]:
    """Train without files; return the weights after each of the 12 steps."""
    recorder = Recorder()
    run.trainer.hooks = [recorder]
    assert run.trainer.fit()
    return recorder.weights


def files(run: Path, checkpoint: str = "last") -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (run / "checkpoints" / checkpoint).glob("*.safetensors")}


def stopped_at(patch: pytest.MonkeyPatch, step: int) -> None:
    """Stop runs after a step."""

    class Stop(Hook):
        def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
            trainer.stopping = trainer.position.step == step

    original = Trainer.fit
    patch.setattr(Trainer, "fit", lambda self: self.hooks.append(Stop()) or original(self))


def filled(value: float) -> Any:
    """Make a model with a parameter, a frozen one and a buffer."""
    model = nn.Module()
    model.weight = nn.Parameter(torch.full((3,), value))
    model.frozen = nn.Parameter(torch.tensor([0.1, 0.7]), requires_grad=False)
    model.register_buffer("buffer", torch.full((2,), value))
    return model


def test_no_average_evaluates_the_model_itself_and_stores_nothing() -> None:
    model = filled(1.0)
    average = NoAverage(model)
    average.update(1, 10)
    assert average.model is model
    assert average.state() == {}


def test_ema_is_the_recursion_over_the_weights_of_all_steps(start: Start) -> None:
    run = start(training={"average": QUICK})
    first, *others = trained(run)
    average = first
    for weights in others:
        average = {name: 0.8 * average[name] + 0.2 * value for name, value in weights.items()}
    torch.testing.assert_close(dict(run.trainer.average.model.state_dict()), average)


@pytest.mark.parametrize(("begin", "taken"), [(0.0, 12), (0.5, 6), (0.6, 5), (0.99, 1)])
def test_swa_is_the_mean_of_the_weights_after_its_start(start: Start, begin: float, taken: int) -> None:
    run = start(training={"average": {"name": "swa", "start": begin}})
    last = trained(run)[-taken:]
    mean = {name: torch.stack([weights[name] for weights in last]).mean(0) for name in last[0]}
    torch.testing.assert_close(dict(run.trainer.average.model.state_dict()), mean)
    assert int(run.trainer.average.average.n_averaged) == taken


def test_swa_evaluates_the_trained_weights_before_its_start() -> None:
    model = filled(1.0)
    average = SWA(model, start=0.5)
    average.update(5, 10)
    assert average.model is model
    average.update(6, 10)
    assert average.model is not model


@pytest.mark.parametrize("cls", [EMA, SWA])
def test_buffers_follow_the_model_and_frozen_weights_are_not_averaged(cls: type[Average]) -> None:
    model = filled(0.0)
    average = cls(model)
    for step in range(1, 21):
        model.weight.data.fill_(float(step))
        model.buffer.fill_(float(step))
        average.update(step, 20)
    averaged: Any = average.model
    assert averaged.buffer.tolist() == [20.0, 20.0]
    assert torch.equal(averaged.frozen, model.frozen)
    assert 0 < float(averaged.weight[0].detach()) < 20


@pytest.mark.parametrize("average", [QUICK, "swa"])
def test_averaging_does_not_change_training(recipe: MakeRecipe, tmp_path: Path, average: Any) -> None:
    plain = verb.train(recipe(), out=tmp_path / "plain").path / "checkpoints" / "last"
    run = verb.train(recipe(training={"average": average}), out=tmp_path / "run").path / "checkpoints" / "last"
    weights = load_file(run / "weights.safetensors")
    assert int(weights.pop("n_averaged")) == (12 if average == QUICK else 6)
    expected = load_file(plain / "model.safetensors")
    assert weights.keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in weights.items())
    assert (run / "optimizer.safetensors").read_bytes() == (plain / "optimizer.safetensors").read_bytes()
    assert (run / "model.safetensors").read_bytes() != (plain / "model.safetensors").read_bytes()
    assert not (plain / "weights.safetensors").exists()


def test_the_average_is_evaluated_and_saved(start: Start) -> None:
    run = start("run", training={"average": {"name": "ema", "decay": 0.95}}, optimizer={"learning_rate": 0.01})
    assert run.fit()
    folder = run.folder.path
    averaged = run.trainer.average.model.state_dict()
    other = start("other")
    other.model.load_state_dict(averaged)
    scores = run.evaluate(run.trainer.average.model, epoch=2, step=12)
    expected = {key: value for key, value in asdict(scores).items() if key != "seconds"}
    assert read_records(folder / "metrics.jsonl")[-1] == {"kind": "evaluation", **expected}
    assert scores == other.evaluate(other.model, epoch=2, step=12)
    other.model.load_state_dict(run.model.state_dict())
    assert scores != other.evaluate(other.model, epoch=2, step=12)
    loaded = palbert.load(folder, checkpoint="last", device="cpu").inference.model.state_dict()
    assert all(torch.equal(value, averaged[name]) for name, value in loaded.items())
    assert files(folder, "best").keys() == {"model.safetensors"}


# SWA starts after step 6: runs stop before it, right at it and after it.
@pytest.mark.parametrize(("average", "stop"), [(QUICK, 1), (QUICK, 9), ("swa", 4), ("swa", 6), ("swa", 9)])
def test_a_run_stopped_and_resumed_equals_an_uninterrupted_one(
    recipe: MakeRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, average: Any, stop: int
) -> None:
    chosen = recipe(training={"average": average})
    whole = verb.train(chosen, out=tmp_path / "whole").path
    with monkeypatch.context() as patch:
        stopped_at(patch, stop)
        with pytest.raises(KeyboardInterrupt):
            verb.train(chosen, out=tmp_path / "cut")
    verb.train(chosen, out=tmp_path / "cut", resume=True)
    assert files(tmp_path / "cut") == files(whole)
    assert "weights.safetensors" in files(whole)
    assert files(tmp_path / "cut", "best") == files(whole, "best")


# Two phases of 6 steps each; runs stop in the first, at its very end, and in the second.
@pytest.mark.parametrize("stop", [2, 6, 9])
@pytest.mark.parametrize("second", ["none", "swa"])
def test_a_phase_starts_with_the_average_of_the_previous_one(
    tiny_recipe: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str, stop: int
) -> None:
    tiny_recipe["training"] |= {"epochs": 1, "average": QUICK}
    tiny_recipe["phases"] = [{}, {"training": {"average": second}}]
    chosen = make_recipe(tiny_recipe)
    begun: list[Weights] = []
    original = Trainer.fit

    def fit(self: Trainer) -> bool:
        begun.append({name: value.clone() for name, value in self.model.state_dict().items()})
        return original(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "fit", fit)
        whole = verb.train(chosen, out=tmp_path / "whole").path
    with monkeypatch.context() as patch:
        stopped_at(patch, stop)
        with pytest.raises(KeyboardInterrupt):
            verb.train(chosen, out=tmp_path / "cut")
    first = load_file(tmp_path / "cut" / "checkpoints" / "last" / "model.safetensors")
    if stop == 6:
        assert all(torch.equal(value, begun[1][name]) for name, value in first.items())
    verb.train(chosen, out=tmp_path / "cut", resume=True)
    assert files(tmp_path / "cut") == files(whole)
    assert ("weights.safetensors" in files(whole)) == (second == "swa")


def test_a_checkpoint_without_the_trained_weights_is_refused(recipe: MakeRecipe, tmp_path: Path) -> None:
    chosen = recipe(training={"average": "ema"})
    run = verb.train(chosen, out=tmp_path / "run").path
    (run / "checkpoints" / "last" / "weights.safetensors").unlink()
    record_folder(run / "checkpoints" / "last")
    with pytest.raises(CheckpointError, match="the averaged weights do not fit the recipe"):
        verb.train(chosen, out=run, resume=True)


def test_averages_work_with_the_proximal_term_and_adapters_in_a_frozen_encoder(
    start: Start, tiny_recipe: dict[str, Any]
) -> None:
    tiny_recipe |= {"adapters": {"name": "lora", "rank": 2}, "objectives": ["proximal"]}
    run = start(training={"average": QUICK}, encoder={"frozen": True})
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    trained(run)
    averaged = run.trainer.average.model.state_dict()
    assert {name.split(".")[0] for name in before if not torch.equal(averaged[name], before[name])} == {
        "adapters",
        "heads",
    }


@pytest.mark.parametrize(
    ("average", "says"),
    [
        ("emma", "training.average: unknown name 'emma'. Known: ema, none, swa. Did you mean 'ema'?"),
        ({"name": "ema", "decay": 1}, "training.average: decay: expected a number from 0 and below 1, found 1."),
        ({"name": "swa", "start": 1.0}, "training.average: start: expected a number from 0 and below 1, found 1.0."),
        ({"name": "swa", "begin": 0.5}, "training.average: unknown option 'begin'."),
        (
            "contextlib:nullcontext",
            "training.average: 'contextlib:nullcontext' is not an average: it belongs",
        ),
    ],
)
def test_an_unusable_average_is_reported(recipe: MakeRecipe, average: Any, says: str) -> None:
    with pytest.raises(RecipeError) as caught:
        check_names(recipe(training={"average": average}))
    assert says in str(caught.value)
