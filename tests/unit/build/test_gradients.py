"""The gradient method of a recipe: what is chosen, what is refused, and what a run logs about it."""

from __future__ import annotations

import copy
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from palbert.build import check_names, make_gradients
from palbert.errors import MissingExtraError, RecipeError
from palbert.gradients.kept import KeptGradients
from palbert.gradients.recomputed import RecomputedGradients
from palbert.gradients.split import SplitGradients, Trunk
from palbert.gradients.sum import Sum
from palbert.recipe.load import make_recipe
from palbert.registry import GRADIENTS
from palbert.runtime.run_folder import RunFolder
from palbert.training.hooks import read_records
from palbert.training.trainer import Trainer
from palbert.verbs import train as verb

pytest.importorskip("torchjd")

METHODS = sorted(set(GRADIENTS) - {"sum"})


@pytest.fixture
def values(tiny_recipe: dict[str, Any]) -> dict[str, Any]:
    """Return the tiny recipe with every task in every step."""
    changed = copy.deepcopy(tiny_recipe)
    changed["training"] |= {"sampler": "mixed", "gradients": "pcgrad"}
    return changed


@pytest.mark.parametrize("name", METHODS)
def test_a_recipe_with_one_task_is_refused(values: dict[str, Any], name: str) -> None:
    values["tasks"] = {"sst": {}}
    values["training"]["gradients"] = name
    with pytest.raises(RecipeError, match=rf"{GRADIENTS[name].__name__} with one task: .* Take 'sum', or add a task\."):
        check_names(make_recipe(values))


def test_recomputing_with_accumulation_is_refused_with_the_reason(values: dict[str, Any]) -> None:
    values["training"] |= {"gradients": {"name": "pcgrad", "memory": "recompute"}, "accumulation": 2}
    with pytest.raises(RecipeError, match=r"'recompute' with accumulation 2: .*cannot be computed from its pieces"):
        check_names(make_recipe(values))


@pytest.mark.parametrize(
    ("component", "message"),
    [
        ({"name": "pcgrad", "memory": "forget"}, "memory: expected 'keep' or 'recompute', found 'forget'"),
        ({"name": "pcgrad", "c": 0.5}, "training.gradients: unknown option 'c'. Known: memory."),
        ({"name": "cagrad", "c": -1.0}, "training.gradients: c: expected a number from 0"),
        ({"name": "cagrad", "c": "much"}, "training.gradients: "),
        ({"name": "aligned-mtl", "scale_mode": "max"}, "scale_mode: expected"),
        ({"name": "fairgrad", "alpha": -0.5}, "alpha: expected a number from 0"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_loaded(
    values: dict[str, Any], component: dict[str, Any], message: str
) -> None:
    values["training"]["gradients"] = component
    with pytest.raises(RecipeError, match=message):
        check_names(make_recipe(values))


def test_without_torchjd_the_error_says_how_to_install_it(
    values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torchjd", None)
    with pytest.raises(MissingExtraError, match=r"Gradient methods need torchjd\. .*'palbert\[gradients\]'"):
        check_names(make_recipe(values))


def train(values: dict[str, Any], folder: Path, **settings: Any) -> Path:
    return verb.train(make_recipe(values), out=folder, **settings).path


@pytest.fixture
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb.TrainingJob, "report", lambda job: None)


@pytest.mark.usefixtures("_no_report")
def test_a_sampler_of_one_task_per_step_gets_a_warning(
    values: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    message = "PCGrad has no effect: the sampler never gives two tasks in a step"
    with caplog.at_level(logging.WARNING, logger="palbert"):
        verb.TrainingJob(make_recipe(values), RunFolder(tmp_path / "together")).prepare()
        assert message not in caplog.text
        values["training"]["sampler"] = "annealed"
        train(values, tmp_path / "run")
    assert message in caplog.text


@pytest.mark.usefixtures("_no_report")
@pytest.mark.parametrize("memory", ["keep", "recompute"])
def test_a_run_with_pcgrad_stopped_and_resumed_equals_an_uninterrupted_one(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: str
) -> None:
    values["training"] |= {"gradients": {"name": "pcgrad", "memory": memory}, "log_every": 4}
    whole, stopped = train(values, tmp_path / "whole"), tmp_path / "stopped"
    original = Trainer.step

    def step(self: Any, batches: Any) -> Any:
        self.stopping = self.position.step == 6
        return original(self, batches)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", step)
        with pytest.raises(KeyboardInterrupt):
            train(values, stopped)
    train(values, stopped, resume=True)
    weights = [(run / "checkpoints" / "last" / "model.safetensors").read_bytes() for run in (whole, stopped)]
    assert weights[0] == weights[1]
    lines = [
        [(record.get("losses"), record.get("cosines")) for record in read_records(run / "metrics.jsonl")]
        for run in (whole, stopped)
    ]
    assert lines[0] == lines[1]


@pytest.mark.parametrize("frozen", [False, True])
def test_a_run_logs_cosines_and_shows_them(values: dict[str, Any], tmp_path: Path, frozen: bool) -> None:
    pytest.importorskip("matplotlib")
    values["encoder"]["frozen"] = frozen
    run = train(values, tmp_path / "run")
    lines = [record for record in read_records(run / "metrics.jsonl") if record["kind"] == "train"]
    report = (run / "report.html").read_text("utf-8")
    if frozen:
        assert all("cosines" not in line for line in lines)
        assert "below 0 the tasks conflict" not in report
    else:
        assert [set(line["cosines"]) for line in lines] == [{"sst/quora", "sst/sts", "quora/sts"}] * len(lines)
        assert all(-1 <= cosine <= 1 for line in lines for cosine in line["cosines"].values())
        assert "below 0 the tasks conflict" in report


@pytest.mark.usefixtures("_no_report")
def test_a_line_has_the_mean_cosine_of_the_steps_since_the_last(values: dict[str, Any], tmp_path: Path) -> None:
    logged = {}
    for every in (1, 3):
        values["training"]["log_every"] = every
        records = read_records(train(values, tmp_path / f"{every}") / "metrics.jsonl")
        logged[every] = [record["cosines"]["sst/sts"] for record in records if record["kind"] == "train"]
    means = [sum(logged[1][start : start + 3]) / 3 for start in range(0, 12, 3)]
    assert logged[3] == pytest.approx(means)


@pytest.mark.parametrize("frozen", [False, True])
def test_adapters_and_heads_keep_their_gradient_and_the_rest_is_combined(
    values: dict[str, Any], tmp_path: Path, frozen: bool
) -> None:
    values["adapters"] = {"name": "pal", "size": 8, "heads": 2, "dropout": 0.0}
    values["relation"] = {"name": "linear", "tasks": ["quora", "sts"]}
    values["encoder"] |= {"dropout": 0.0, "attention_dropout": 0.0, "frozen": frozen}
    values["tasks"] = {task: {"dropout": 0.0} for task in values["tasks"]}
    values["training"]["clip"] = float("inf")

    def gradients(name: Any) -> dict[str, Tensor]:
        values["training"]["gradients"] = name
        run = verb.TrainingJob(make_recipe(values), RunFolder(tmp_path / "run")).prepare()
        seen: dict[str, Tensor] = {}
        run.trainer.optimizer.register_step_pre_hook(
            lambda *_: seen.update({n: p.grad.clone() for n, p in run.model.named_parameters() if p.grad is not None})
        )
        torch.manual_seed(0)
        run.trainer.step(run.trainer.feed(("sst", "quora", "sts"), {"sst": 0, "quora": 0, "sts": 0}))
        return seen

    kept, total = gradients("pcgrad"), gradients("sum")
    recomputed = gradients({"name": "pcgrad", "memory": "recompute"})
    assert kept.keys() == recomputed.keys() == total.keys()
    same = set()
    for key, value in kept.items():
        torch.testing.assert_close(value, recomputed[key], rtol=1e-3, atol=1e-5)
        if torch.allclose(value, total[key], rtol=1e-4, atol=1e-6):
            same.add(key)
    own = {key for key in kept if key.startswith(("adapters", "heads"))}
    assert own <= same
    assert any(key.startswith("encoder") for key in kept) is not frozen
    assert frozen or {key for key in kept if key.startswith("encoder")} - same


def test_each_task_has_its_own_batch_if_gradients_are_kept_and_cannot_be_split(
    values: dict[str, Any], tmp_path: Path
) -> None:
    def tasks_of_batches(name: str, **changes: Any) -> list[list[str]]:
        values["training"] |= changes
        trainer = verb.TrainingJob(make_recipe(values), RunFolder(tmp_path / name)).prepare().trainer
        return [list(batch.parts) for batch in trainer.feed(("sst", "sts"), {"sst": 0, "sts": 0})]

    assert tasks_of_batches("split") == [["sst", "sts"]]
    values["encoder"]["mixout"] = 0.5
    assert tasks_of_batches("keep") == [["sst"], ["sts"]]
    assert tasks_of_batches("pieces", accumulation=2) == [["sst"], ["sst"], ["sts"], ["sts"]]
    assert tasks_of_batches("sum", gradients="sum") == [["sst", "sts"]] * 2
    recompute = {"name": "pcgrad", "memory": "recompute"}
    assert tasks_of_batches("recompute", gradients=recompute, accumulation=1) == [["sst", "sts"]]


def test_the_method_is_chosen_before_it_is_constructed(values: dict[str, Any]) -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    trunk = Trunk(shared=[weight], own=[])

    def made(gradients: Any, found: Trunk | None = trunk) -> Any:
        values["training"]["gradients"] = gradients
        plans = [[("sst", "quora"), ("sts",)]]
        recipe = make_recipe(values)
        return make_gradients(recipe, parameters=[weight], plans=plans, find_trunk=lambda tasks: asked(tasks, found))

    tasks_of_steps = []

    def asked(tasks: int, found: Trunk | None) -> Trunk | None:
        tasks_of_steps.append(tasks)
        return found

    assert type(made("sum")) is Sum
    assert type(made({"name": "cagrad", "c": 0.4, "memory": "recompute"})) is RecomputedGradients
    assert tasks_of_steps == [], "nothing is looked for in vain"
    assert type(made("cagrad")) is SplitGradients
    kept = made({"name": "cagrad", "memory": "keep"}, None)
    assert type(kept) is KeptGradients and kept.kept.most == 2
    assert tasks_of_steps == [2, 2]
