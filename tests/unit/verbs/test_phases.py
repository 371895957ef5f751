"""Phases: stretches of a run with their own tasks, trained parts, sampler, rates and length."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import palbert
from palbert.errors import RecipeError
from palbert.recipe.load import dump_recipe, load_recipe, make_recipe
from palbert.training.checkpoint_hooks import Checkpoints
from palbert.training.hooks import read_records
from palbert.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Write = Callable[..., Path]


def values(tiny: Path, **own: Any) -> dict[str, Any]:
    return {
        "seed": 3,
        "data": "samples",
        "encoder": {"name": str(tiny)},
        "tasks": ["sst", "quora"],
        "training": {"epochs": 1, "steps_per_epoch": 8, "batch_size": 4, "log_every": 2, "save_every": 3},
        "optimizer": {"learning_rate": 1e-3, "schedule": "stlr"},
        "run": {"device": "cpu", "tensorboard": False},
        **own,
    }


ADAPTERS_THEN_ALL = {
    "adapters": {"name": "low-rank", "size": 4},
    "phases": [
        {"name": "adapters", "training": {"trains": ["adapters", "heads"]}, "optimizer": {"learning_rate": 0.01}},
        {
            "training": {"epochs": 2, "steps_per_epoch": 5, "sampler": "round-robin"},
            "optimizer": {"schedule": "constant"},
        },
    ],
}


def records(run: Path, kind: str) -> list[dict[str, Any]]:
    return [record for record in read_records(run / "metrics.jsonl") if record["kind"] == kind]


def test_a_phase_trains_only_the_parts_it_names(
    tiny_encoder: Path, write_recipe: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[dict[str, torch.Tensor]] = []
    save = Checkpoints.on_evaluation

    def keep(self: Checkpoints, trainer: Trainer, *arguments: Any) -> None:
        kept.append({name: value.clone() for name, value in trainer.model.state_dict().items()})
        save(self, trainer, *arguments)

    monkeypatch.setattr(Checkpoints, "on_evaluation", keep)
    palbert.train(write_recipe(values(tiny_encoder, **ADAPTERS_THEN_ALL)), out=tmp_path / "run")
    encoder = palbert.model.pretrained.load_encoder(tiny_encoder).state_dict()
    after_adapters, _, after_all = kept
    for name, value in encoder.items():
        assert torch.equal(after_adapters[f"encoder.{name}"], value), name
    assert not torch.equal(after_all["encoder.layers.0.output.weight"], encoder["layers.0.output.weight"])
    assert any(value.abs().sum() > 0 for name, value in after_adapters.items() if name.startswith("adapters."))


def test_each_phase_has_its_own_length_sampler_and_rates(
    tiny_encoder: Path, write_recipe: Write, tmp_path: Path
) -> None:
    run = palbert.train(write_recipe(values(tiny_encoder, **ADAPTERS_THEN_ALL)), out=tmp_path / "run").path
    assert [record["step"] for record in records(run, "epoch")] == [8, 13, 18]
    assert [sum(record["drawn"].values()) for record in records(run, "epoch")] == [8, 5, 5]
    assert records(run, "epoch")[1]["drawn"] == {"sst": 3, "quora": 2}  # round robin
    assert [record["epoch"] for record in records(run, "evaluation")] == [0, 1, 2, 3]
    rates = [record["learning_rate"]["heads"] for record in records(run, "train")]
    assert max(rates[:4]) > 5e-3 and rates[3] < 5e-3  # the triangle ends with the phase, not with the run
    assert rates[4:] == [1e-3] * len(rates[4:])
    assert "encoder" not in records(run, "train")[0]["learning_rate"]


def test_a_phase_with_another_batch_size_continues_where_the_previous_one_ended(
    tiny_encoder: Path, write_recipe: Write, tmp_path: Path
) -> None:
    sizes = [{"training": {"batch_size": size, "steps_per_epoch": 4, "sampler": "sequential"}} for size in (2, 5)]
    run = palbert.train(write_recipe(values(tiny_encoder, phases=sizes)), out=tmp_path / "run").path
    position = json.loads((run / "checkpoints" / "last" / "trainer.json").read_text())["position"]
    drawn = [record["drawn"] for record in records(run, "epoch")]
    assert position["draws"] == {task: 2 * drawn[0][task] + 5 * drawn[1][task] for task in ("sst", "quora")}
    assert all(record["waited"] >= 0 for record in records(run, "train"))


def test_a_phase_with_one_task_does_not_train_the_heads_of_others(
    tiny_encoder: Path, write_recipe: Write, tmp_path: Path
) -> None:
    phases = [{"tasks": ["quora"]}, {"training": {"sampler": "mixed", "gradients": "pcgrad"}}]
    run = palbert.train(write_recipe(values(tiny_encoder, phases=phases)), out=tmp_path / "run").path
    first, second = records(run, "epoch")
    assert first["drawn"] == {"sst": 0, "quora": 8} and first["planned"] == {"sst": 0.0, "quora": 8.0}
    assert second["drawn"] == {"sst": 8, "quora": 8}
    assert set(records(run, "evaluation")[1]["tasks"]) == {"sst", "quora"}
    assert "cosines" in records(run, "train")[-1] and "cosines" not in records(run, "train")[0]


@pytest.mark.parametrize("step", [3, 8, 10, 13])
@pytest.mark.parametrize("objective", ["proximal", None])
def test_a_run_resumed_in_any_phase_equals_an_uninterrupted_one(
    tiny_encoder: Path, write_recipe: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, objective: Any
) -> None:
    own = {**ADAPTERS_THEN_ALL, "objectives": [objective] if objective else []}
    recipe = write_recipe(values(tiny_encoder, **own))
    whole = palbert.train(recipe, out=tmp_path / "whole").path
    step_of = Trainer.step

    def stop(self: Trainer, *arguments: Any) -> Any:
        self.stopping = self.position.step == step - 1
        return step_of(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "step", stop)
        palbert.train(recipe, out=tmp_path / "run")
    palbert.train(recipe, out=tmp_path / "run", resume=True)
    for name in ("model", "optimizer"):
        ends = [load_file(run / "checkpoints" / "last" / f"{name}.safetensors") for run in (whole, tmp_path / "run")]
        assert ends[0].keys() == ends[1].keys()
        assert all(torch.equal(value, ends[1][key]) for key, value in ends[0].items()), name
    for kind in ("epoch", "evaluation"):
        assert records(whole, kind) == records(tmp_path / "run", kind)


def test_ctrl_c_during_the_last_scoring_of_a_phase_stops_the_run(
    tiny_encoder: Path, write_recipe: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = write_recipe(values(tiny_encoder, **ADAPTERS_THEN_ALL))
    original = Checkpoints.on_evaluation

    def interrupted(self: Checkpoints, trainer: Trainer, *arguments: Any) -> None:
        original(self, trainer, *arguments)
        trainer.stopping = trainer.position.step == 8  # the end of the first phase

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Checkpoints, "on_evaluation", interrupted)
        palbert.train(recipe, out=tmp_path / "run")
    palbert.train(recipe, out=tmp_path / "run", resume=True)
    whole = palbert.train(recipe, out=tmp_path / "whole").path
    for kind in ("epoch", "evaluation"):
        assert records(whole, kind) == records(tmp_path / "run", kind)


def test_a_resolved_recipe_reads_back_unchanged(tiny_encoder: Path, tmp_path: Path) -> None:
    recipe = make_recipe(values(tiny_encoder, **ADAPTERS_THEN_ALL))
    (tmp_path / "again.toml").write_text(dump_recipe(recipe), "utf-8")
    assert load_recipe(tmp_path / "again.toml") == recipe
    assert recipe.phases[1].training.batch_size == 4  # inherited from the recipe


def test_the_terms_of_a_phase_are_those_of_its_tasks(tiny_encoder: Path) -> None:
    objectives = [{"name": "rdrop", "tasks": ["sst"]}, {"name": "smart", "tasks": ["sst", "quora"]}, "proximal"]
    recipe = make_recipe(
        values(tiny_encoder, objectives=objectives, phases=[{"tasks": ["quora"]}, {"objectives": ["rdrop"]}])
    )
    first, second = recipe.stages
    assert [(each.name, each.tasks) for each in first.objectives] == [("smart", ("quora",)), ("proximal", ())]
    assert [(each.name, each.tasks) for each in second.objectives] == [("rdrop", ())]


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"phases": [{"tasks": ["qora"]}]}, "phases.0.tasks: unknown task 'qora'."),
        ({"phases": [{"training": {"log_every": 7}}]}, "phases.0.training.log_every: this is set for the whole run"),
        (
            {"encoder": {"name": "minilm", "frozen": True}, "phases": [{"training": {"trains": ["encoder"]}}]},
            "phases.0.training.trains: names the encoder, but encoder.frozen is true",
        ),
        ({"phases": [{"training": {"trains": ["adapters"]}}]}, "phases.0.training.trains: names only adapters"),
        ({"phases": [{"training": {"epochs": 0}}]}, "phases.0.training.epochs"),
        ({"phases": [{"lenght": 3}]}, "phases.0.lenght: unknown key."),
        ({"phases": ["first"]}, "phases.0"),
    ],
)
def test_an_impossible_phase_is_refused(tiny_encoder: Path, own: dict[str, Any], said: str) -> None:
    with pytest.raises(RecipeError) as refused:
        make_recipe(values(tiny_encoder, **own))
    assert said in refused.value.message


def test_a_method_that_a_phase_cannot_use_is_refused_before_data_is_read(
    tiny_encoder: Path, write_recipe: Write, tmp_path: Path
) -> None:
    phases = [{}, {"tasks": ["sst"], "training": {"gradients": "pcgrad"}}]
    with pytest.raises(RecipeError, match=r"phases\.1\.training\.gradients: .* with one task"):
        palbert.train(write_recipe(values(tiny_encoder, phases=phases)), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_all_problems_of_phases_are_reported_on_separate_lines(tiny_encoder: Path) -> None:
    wrong = {"tasks": ["qst"], "training": {"trains": ["adapters"], "log_every": 7}}
    with pytest.raises(RecipeError) as refused:
        make_recipe(values(tiny_encoder, phases=[wrong]), name="mine.toml")
    assert refused.value.message.splitlines() == [
        "mine.toml: phases.0.tasks: unknown task 'qst'. Known: quora, sst. Did you mean 'sst'?",
        "mine.toml: phases.0.training.log_every: this is set for the whole run, in [training].",
        "mine.toml: phases.0.training.trains: names only adapters, but the recipe has none.",
    ]
