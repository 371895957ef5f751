"""A user's own classes in a recipe: "my_module:MyClass" works end to end, and mistakes are reported."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import palbert

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]

MODULE = '''
import torch
from torch import nn
from palbert.extend import GradientMethod, Head, Pooling, Sampler, Schedule, Weighting

calls = {"head": 0, "loss": 0, "loss class": 0, "pooling": 0, "schedule": 0, "gradients": 0, "weighting": 0}


class Gated(Head):
    def __init__(self, hidden_size, *, outputs, dropout, gates=1):
        super().__init__()
        self.gate = nn.ParameterList([nn.Parameter(torch.ones(hidden_size)) for _ in range(gates)])
        self.output = nn.Linear(hidden_size, outputs)

    def forward(self, vector):
        calls["head"] += 1
        for gate in self.gate:
            vector = vector * gate
        return self.output(vector)


class OnlyEvery(Sampler):
    """Three batches of the last task, then one of the first."""

    def __init__(self, rows, *, first=1, **settings):
        super().__init__(rows, **settings)
        self.first = first

    def planned(self, epoch):
        plan = [task for step in self.epoch(epoch) for task in step]
        return {task: float(plan.count(task)) for task in self.rows}

    def epoch(self, epoch):
        tasks = list(self.rows)
        return [(tasks[0] if step % 4 < self.first else tasks[-1],) for step in range(self.steps)]


def seven(outputs, labels):
    calls["loss"] += 1
    return outputs.sum() * 0 + 7.0


class Absolute(nn.Module):
    def forward(self, outputs, labels):
        calls["loss class"] += 1
        return (outputs.squeeze(1) - labels).abs().mean()


class FirstAndLast(Pooling):
    def __init__(self, hidden_size, *, scale=1.0):
        super().__init__(hidden_size)
        self.scale = nn.Parameter(torch.full((hidden_size,), scale))

    def forward(self, hidden, batch, part):
        calls["pooling"] += 1
        starts = batch.starts[part.sequences]
        ends = batch.starts[part.sequences.start + 1 : part.sequences.stop + 1] - 1
        return self.scale * (hidden[starts] + hidden[ends])


def first(encoder, hidden, batch, part):
    return hidden[batch.starts[part.sequences]]


class Half(Schedule):
    def __init__(self, *, share=0.5):
        self.share = share

    def __call__(self, step, total):
        calls["schedule"] += 1
        return self.share


class Plain(GradientMethod):
    def __init__(self, weights):
        self.weights = weights

    def backward(self, losses):
        calls["gradients"] += 1
        sum(losses.values()).backward()


class Mean(Weighting):
    def __init__(self, *, times=1.0):
        self.times = times

    def __call__(self, gram):
        calls["weighting"] += 1
        return torch.full((len(gram),), self.times / len(gram))


class Unfinished(GradientMethod):
    def __init__(self, weights):
        pass


class NoMethod:
    def __init__(self, weights):
        pass

    def backward(self, losses):
        pass

    def combine(self):
        pass


class NoSampler:
    def __init__(self, rows, **settings):
        pass


class NoHead(nn.Linear):
    pass


class NoSchedule:
    def __call__(self, step, total):
        return 1.0
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Put a module into its own folder on the path, and return its name."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "my_parts.py").write_text(MODULE, "utf-8")
    (folder / "broken_parts.py").write_text("class Head(:\n    pass\n", "utf-8")
    monkeypatch.syspath_prepend(folder)
    yield "my_parts"
    for name in ("my_parts", "broken_parts"):
        sys.modules.pop(name, None)


@pytest.fixture
def values(tiny_recipe: dict[str, Any]) -> dict[str, Any]:
    return {
        **tiny_recipe,
        "tasks": {"sst": {}, "sts": {}},
        "training": {"epochs": 1, "steps_per_epoch": 8, "batch_size": 4, "log_every": 8},
    }


def test_user_defined_head_sampler_loss_pooling_schedule_and_gradients_work_end_to_end(
    module: str, values: dict[str, Any], write_recipe: Callable[..., Path], tmp_path: Path, cli: Cli
) -> None:
    values["tasks"]["sst"] |= {"loss": "my_parts:seven", "head": {"name": "my_parts:Gated", "gates": 3}}
    values["tasks"]["sts"] |= {"loss": "my_parts:Absolute", "pooling": {"name": "my_parts:FirstAndLast", "scale": 3.0}}
    values["training"] |= {"sampler": {"name": "my_parts:OnlyEvery", "first": 2}, "gradients": "my_parts:Plain"}
    values["optimizer"] = {"learning_rate": 1e-3, "schedule": {"name": "my_parts:Half", "share": 0.25}}
    run = tmp_path / "run"
    result = cli("train", write_recipe(values), "--out", run)
    assert result.code == 0, result.err
    calls = sys.modules[module].calls  # type: ignore[attr-defined]
    assert (calls["loss"], calls["loss class"], calls["schedule"], calls["gradients"]) == (4, 4, 8, 8)
    assert calls["head"] > 4 and calls["pooling"] > 4

    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    [epoch] = [record for record in records if record["kind"] == "epoch"]
    assert epoch["drawn"] == epoch["planned"] == {"sst": 4, "sts": 4}
    [line] = [record for record in records if record["kind"] == "train"]
    assert line["losses"]["sst"] == 7.0
    assert line["learning_rate"]["heads"] == pytest.approx(0.25e-3)

    asked = cli("predict", run, "--task", "sst", "--text", "a quiet little triumph", "--json")
    assert asked.code == 0
    [prediction] = palbert.load(run).predict("sst", ["a quiet little triumph"])
    assert json.loads(asked.out)["prediction"] == prediction.answer
    head: Any = palbert.load(run).inference.model.heads["sst"]
    assert type(head).__name__ == "Gated" and len(head.gate) == 3
    pooling = palbert.load(run).inference.model.poolings["sts"]
    assert 1 < pooling.scale.mean() < 5 and (pooling.scale != 3).all()  # trained and saved
    assert cli("evaluate", run).code == 0
    assert cli("train", run / "recipe.toml", "--out", run, "--resume").code == 0


@pytest.mark.parametrize("memory", ["keep", "recompute"])
def test_a_user_defined_weighting_gives_the_weights_of_every_step(
    module: str, values: dict[str, Any], write_recipe: Callable[..., Path], tmp_path: Path, cli: Cli, memory: str
) -> None:
    values["training"] |= {"sampler": "mixed", "gradients": {"name": "my_parts:Mean", "times": 2, "memory": memory}}
    result = cli("train", write_recipe(values), "--out", tmp_path / "run")
    assert result.code == 0, result.err
    assert sys.modules[module].calls["weighting"] == 8  # type: ignore[attr-defined]
    line = json.loads((tmp_path / "run" / "metrics.jsonl").read_text("utf-8").splitlines()[1])
    assert set(line["cosines"]) == {"sst/sts"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tasks.sst.head": "no_such_parts:Head"}, "'no_such_parts:Head' cannot be imported: ModuleNotFoundError"),
        ({"tasks.sst.head": "my_parts:Gatde"}, "'my_parts:Gatde' cannot be imported: AttributeError"),
        ({"tasks.sst.head": "broken_parts:Head"}, "'broken_parts:Head' cannot be imported: SyntaxError"),
        ({"tasks.sst.loss": "my_parts:nothing"}, "'my_parts:nothing' cannot be imported"),
        ({"tasks.sst.pooling": "my_parts:nothing"}, "'my_parts:nothing' cannot be imported"),
        ({"tasks.sst.pooling": "my_parts:first"}, "'my_parts:first' is not a pooling."),
        ({"tasks.sst.pooling": {"name": "my_parts:FirstAndLast", "scales": 2}}, "Did you mean 'scale'?"),
        ({"training.sampler": "my_parts:Nothing"}, "'my_parts:Nothing' cannot be imported"),
        ({"training.gradients": "my_parts:Nothing"}, "'my_parts:Nothing' cannot be imported"),
        ({"optimizer.schedule": "my_parts:Nothing"}, "'my_parts:Nothing' cannot be imported"),
        ({"training.sampler": "my_parts:NoSampler"}, "training.sampler: 'my_parts:NoSampler' is not a sampler."),
        (
            {"training.gradients": "my_parts:NoMethod"},
            "'my_parts:NoMethod' is not a gradient method.",
        ),
        ({"training.gradients": "my_parts:Unfinished"}, "'my_parts:Unfinished' does not implement backward."),
        ({"training.gradients": {"name": "my_parts:Mean", "tims": 2}}, "Did you mean 'times'?"),
        ({"training.gradients": {"name": "my_parts:Mean", "memory": "no"}}, "memory: expected 'keep' or 'recompute'"),
        (
            {"tasks.sst.head": "my_parts:NoHead"},
            "tasks.sst.head: 'my_parts:NoHead' is not a head.\n  Derive its class from palbert.extend.Head.",
        ),
        ({"optimizer.schedule": "my_parts:NoSchedule"}, "'my_parts:NoSchedule' is not a schedule."),
        ({"tasks.sst.head": {"name": "my_parts:Gated", "gate": 2}}, "Did you mean 'gates'?"),
        ({"optimizer.schedule": {"name": "my_parts:Half", "shares": 1}}, "Did you mean 'share'?"),
    ],
)
def test_an_unusable_user_class_is_reported(
    change: dict[str, Any],
    says: str,
    module: str,
    values: dict[str, Any],
    write_recipe: Callable[..., Path],
    tmp_path: Path,
    cli: Cli,
) -> None:
    for key, value in change.items():
        *parents, last = key.split(".")
        place = values
        for parent in parents:
            place = place[parent]
        place[last] = value
    result = cli("train", write_recipe(values), "--out", tmp_path / "run")
    assert (result.code, result.out) == (2, "")
    assert says in result.err and "Traceback" not in result.err
    assert not (tmp_path / "run").exists()


def test_loading_a_run_names_its_missing_user_class(
    module: str,
    values: dict[str, Any],
    write_recipe: Callable[..., Path],
    tmp_path: Path,
    cli: Cli,
) -> None:
    values["tasks"] = {"sst": {"head": "my_parts:Gated"}}
    run = tmp_path / "run"
    assert cli("train", write_recipe(values), "--out", run).code == 0
    sys.modules.pop("my_parts")
    (tmp_path / "code" / "my_parts.py").unlink()
    result = cli("predict", run, "--task", "sst", "--text", "a")
    assert result.code == 2
    assert "'my_parts:Gated' cannot be imported" in result.err and "PYTHONPATH" in result.err


def test_an_error_in_a_user_class_exits_with_code_1_and_its_message(
    module: str, values: dict[str, Any], write_recipe: Callable[..., Path], tmp_path: Path, cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    values["tasks"] = {"sst": {"loss": "my_parts:wrong"}}
    with (tmp_path / "code" / "my_parts.py").open("a") as stream:
        stream.write('\n\ndef wrong(outputs, labels):\n    raise ZeroDivisionError("my own mistake")\n')
    recipe = write_recipe(values)
    result = cli("train", recipe, "--out", tmp_path / "run")
    assert (result.code, result.out) == (1, "")
    assert "error: ZeroDivisionError: my own mistake" in result.err and "Traceback" not in result.err
    result = cli("--debug", "train", recipe, "--out", tmp_path / "other")
    assert result.code == 1 and "my_parts.py" in result.err and "Traceback" in result.err


def test_tasks_may_have_any_name_even_one_that_torch_uses(
    tiny_recipe: dict[str, Any], write_recipe: Callable[..., Path], tmp_path: Path, cli: Cli
) -> None:
    data = Path(palbert.__file__).parent / "data" / "samples"
    similar = {"kind": "pair", "target": "number", "text": ["sentence1", "sentence2"], "label": "similarity",
               "train": str(data / "sts-train.tsv"), "dev": str(data / "sts-dev.tsv")}  # fmt: skip
    names = ["type", "keys", "train", "2nd-task", "parameters"]
    values = {**tiny_recipe, "tasks": dict.fromkeys(names, similar)}
    values["training"] = {"epochs": 1, "steps_per_epoch": 5, "batch_size": 2, "sampler": "round-robin"}
    del values["data"]
    run = tmp_path / "run"
    assert cli("train", write_recipe(values), "--out", run).code == 0
    model = palbert.load(run)
    for name in names:
        [prediction] = model.predict(name, [("a man", "a guitar")])
        assert isinstance(prediction.answer, float)
        assert (run / "predictions" / f"{name}-dev.csv").is_file()
    assert len({model.predict(name, [("a man", "a guitar")])[0].answer for name in names}) == len(names)
