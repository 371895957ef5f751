"""Objectives: no terms and terms of weight 0 change nothing; every term trains, stops and resumes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from palbert.build import check_names, make_objectives
from palbert.errors import CheckpointError, RecipeError
from palbert.model.encoder import Encoder
from palbert.objectives import Term
from palbert.objectives.objectives import Objectives
from palbert.recipe.load import dump_recipe, load_recipe, make_recipe
from palbert.registry import OBJECTIVES
from palbert.runtime.checksums import record_folder
from palbert.runtime.run_folder import RunFolder
from palbert.training.trainer import Hook, Trainer
from palbert.verbs import train as verb

MakeScene = Callable[..., Any]
SWAPS = {"swaps": {"form": "identity-swaps"}}
SIAMESE = {"pair_input": "siamese", "head": "concat"}
TERMS = [name for name in OBJECTIVES if name != "distillation"]  # tested separately, with teachers
LABELLED = [name for name in TERMS if not OBJECTIVES[name].triplets]


@pytest.fixture
def values(tiny_recipe: dict[str, Any]) -> dict[str, Any]:
    """Return a short recipe with classes, a joint and a siamese pair."""
    values = copy.deepcopy(tiny_recipe)
    values["tasks"] = {"sst": {"label_smoothing": 0.1, "extra": dict(SWAPS)}, "quora": {}, "sts": dict(SIAMESE)}
    values["training"] = {"epochs": 2, "steps_per_epoch": 3, "batch_size": 4, "sampler": "round-robin"}
    return values


@pytest.fixture(autouse=True)
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the final report: it does not concern objectives."""
    monkeypatch.setattr(verb.TrainingJob, "report", lambda job: None)


def trained(values: dict[str, Any], folder: Path, objectives: list[Any]) -> dict[str, bytes]:
    """Train and return the files of the last checkpoint, without the one that holds times."""
    run = verb.train(make_recipe({**values, "objectives": objectives}), out=folder)
    files = (run / "checkpoints" / "last").iterdir()
    return {file.name: file.read_bytes() for file in files if file.suffix == ".safetensors"}


def test_without_terms_the_losses_are_the_supervised_ones_in_one_pass(
    scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = []
    original = Encoder.forward
    monkeypatch.setattr(Encoder, "forward", lambda self, *a, **k: passes.append(1) or original(self, *a, **k))

    def run(make: Callable[[Any], Any]) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        stage = scene(dropout=0.1)
        torch.manual_seed(0)
        losses = make(stage)(stage.model, stage.batch())
        torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
        return losses, stage.gradient()

    def by_hand(stage: Any) -> Any:
        return lambda model, batch: stage.supervised(batch, {name: [found] for name, found in model(batch).items()})

    losses, gradient = run(by_hand)
    found, found_gradient = run(lambda stage: Objectives(stage.supervised))
    assert len(passes) == 2
    assert all(torch.equal(found[task], losses[task]) for task in losses)
    assert torch.equal(found_gradient, gradient)


def test_a_weight_of_0_gives_the_same_run_bit_by_bit(values: dict[str, Any], tmp_path: Path) -> None:
    plain = trained(values, tmp_path / "plain", [])
    nothing = trained(values, tmp_path / "nothing", [{"name": name, "weight": 0} for name in TERMS])
    assert plain == nothing


@pytest.mark.parametrize(
    ("objective", "passes"),
    [
        ("proximal", 1),
        ("rdrop", 1),
        ("simcse", 1),
        ({"name": "simcse", "dropout": 0.2}, 2),
        ("smart", 2),
        ({"name": "smart", "steps": 3}, 4),
    ],
)
def test_a_term_takes_as_many_passes_as_documented(
    scene: MakeScene, monkeypatch: pytest.MonkeyPatch, objective: Any, passes: int
) -> None:
    options = {"name": objective} if isinstance(objective, str) else dict(objective)
    stage = scene(dropout=0.1)
    term = OBJECTIVES[options.pop("name")](stage.goals, **options)
    term.prepare(stage.model)
    batch = stage.batch()
    counted = []
    original = Encoder.forward
    monkeypatch.setattr(
        Encoder, "forward", lambda self, given, **k: counted.append(given.tokens) or original(self, given, **k)
    )
    Objectives(stage.supervised, [term])(stage.model, batch)
    assert sum(counted) == (1 + passes) * batch.tokens
    if term.compares:
        assert len(counted) == 1, "both views are in one pass"


@pytest.mark.parametrize("name", LABELLED)
def test_a_term_trains_and_changes_the_run(name: str, values: dict[str, Any], tmp_path: Path) -> None:
    # In the first step the average equals the weights: the proximal term needs time to grow.
    objective = {"name": name, "weight": 5.0}
    assert trained(values, tmp_path / "plain", []) != trained(values, tmp_path / name, [objective])


@pytest.mark.parametrize("task", ["sst", "quora", "sts", "sts-siamese", "quora-siamese"])
def test_all_terms_train_together_on_every_kind_of_task(
    values: dict[str, Any], nli: dict[str, Any], tmp_path: Path, task: str
) -> None:
    name, _, siamese = task.partition("-")
    values["tasks"] = {name: {**(SIAMESE if siamese else {}), "extra": {**nli, **SWAPS}}}
    values["training"] |= {"epochs": 1, "accumulation": 2}
    assert "model.safetensors" in trained(values, tmp_path / "run", TERMS)


def test_terms_of_different_tasks_share_a_step_of_all_tasks(values: dict[str, Any], tmp_path: Path) -> None:
    values["training"] |= {"sampler": "mixed", "accumulation": 2}
    some = [{"name": "smart", "tasks": ["quora"]}, {"name": "rdrop", "tasks": ["sst"]}, "simcse", "proximal"]
    assert trained(values, tmp_path / "plain", []) != trained(values, tmp_path / "run", some)


@pytest.mark.parametrize("adapters", ["pal", "lora"])
def test_all_terms_train_with_adapters_in_a_frozen_encoder_and_a_relational_layer(
    values: dict[str, Any], nli: dict[str, Any], tmp_path: Path, adapters: str
) -> None:
    values["tasks"]["sts"] = {}
    values["encoder"]["frozen"] = True
    options = {"size": 8, "heads": 4} if adapters == "pal" else {"rank": 4}
    values |= {"adapters": {"name": adapters, **options}, "relation": {"name": "linear", "tasks": ["quora", "sts"]}}
    plain = trained(values, tmp_path / "plain", [])
    values["tasks"]["sts"] = {"extra": {**nli, **SWAPS}}
    found = trained(values, tmp_path / "run", [{"name": name, "tasks": ["quora", "sts"]} for name in TERMS])
    assert plain["model.safetensors"] != found["model.safetensors"]


@pytest.mark.parametrize("name", TERMS)
def test_a_run_stopped_and_resumed_ends_with_the_same_weights_and_state(
    name: str, values: dict[str, Any], nli: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if OBJECTIVES[name].triplets:
        values["tasks"]["quora"]["extra"] = nli
    whole = trained(values, tmp_path / "whole", [name])

    class StopAt4(Hook):
        def on_step(self, trainer: Trainer, losses: dict[str, torch.Tensor], tokens: int) -> None:
            trainer.stopping = trainer.position.step == 4

    recipe = make_recipe({**values, "objectives": [name]})
    original = Trainer.fit
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "fit", lambda self: self.hooks.append(StopAt4()) or original(self))
        with pytest.raises(KeyboardInterrupt):
            verb.train(recipe, out=tmp_path / "cut")
    run = verb.train(recipe, out=tmp_path / "cut", resume=True)
    last = run / "checkpoints" / "last"
    assert {file.name: file.read_bytes() for file in last.glob("*.safetensors")} == whole
    assert (last / "objective.safetensors").exists() == (name in ("proximal", "simcse"))
    assert not (run / "checkpoints" / "best" / "objective.safetensors").exists()


def test_a_checkpoint_without_its_objective_is_refused(values: dict[str, Any], tmp_path: Path) -> None:
    recipe = make_recipe({**values, "objectives": ["proximal"]})
    run = verb.train(recipe, out=tmp_path / "run")
    (run / "checkpoints" / "last" / "objective.safetensors").unlink()
    record_folder(run / "checkpoints" / "last")
    with pytest.raises(CheckpointError, match="objectives' state does not fit the recipe"):
        verb.train(recipe, out=tmp_path / "run", resume=True)


def test_a_layer_of_a_term_is_in_the_optimizer_and_not_in_the_model(values: dict[str, Any], tmp_path: Path) -> None:
    values["optimizer"] |= {"head_learning_rate": 0.01}
    run = verb.TrainingJob(make_recipe({**values, "objectives": ["simcse"]}), RunFolder(tmp_path / "run")).prepare()
    groups = {group["role"]: group for group in run.trainer.optimizer.param_groups}
    assert groups["objectives"]["lr"] == 0.01
    [layer] = run.trainer.objective.terms[0].layers  # one joint pair
    before = layer.weight.clone()
    assert run.fit()
    assert not torch.equal(layer.weight, before)
    plain = verb.TrainingJob(make_recipe(values), RunFolder(tmp_path / "plain")).prepare()
    assert run.model.state_dict().keys() == plain.model.state_dict().keys()
    assert "objectives" not in {group["role"] for group in plain.trainer.optimizer.param_groups}


def test_an_objective_reads_back_unchanged(values: dict[str, Any], tmp_path: Path) -> None:
    given = [{"name": "smart", "weight": 0.02, "tasks": ["sst"]}, "rdrop"]
    recipe = make_recipe({**values, "objectives": given})
    (tmp_path / "recipe.toml").write_text(dump_recipe(recipe), "utf-8")
    assert load_recipe(tmp_path / "recipe.toml").objectives == recipe.objectives
    terms = make_objectives(recipe).terms
    assert [tuple(term.goals) for term in terms] == [("sst", "sst+swaps"), ("sst", "sst+swaps", "quora", "sts")]
    assert [term.weight for term in terms] == [0.02, 1.0]


STILL = {"dropout": 0.0, "attention_dropout": 0.0}


@pytest.mark.parametrize(
    ("objective", "encoder", "says"),
    [
        ("smrt", {}, "objectives.0: unknown name 'smrt'. Known: distillation, proximal,"),
        (
            {"name": "smart", "tasks": ["sst", "qoura"]},
            {},
            "objectives.0.tasks: unknown task 'qoura'. Known: quora, sst, sts. Did you mean 'quora'?",
        ),
        ({"name": "smart", "tasks": "sst"}, {}, "objectives.0.tasks: Input should be a valid tuple"),
        ({"name": "smart", "wieght": 1}, {}, "Did you mean 'weight'?"),
        ({"name": "smart", "weight": "much"}, {}, "objectives.0: weight: expected a number from 0, found 'much'."),
        ({"name": "simcse", "temperature": "hot"}, {}, "objectives.0: temperature: expected a number above 0, found"),
        ({"name": "smart", "norm": "l1"}, {}, "objectives.0: norm: expected 'inf' or 'l2', found 'l1'."),
        ({"name": "simcse", "dropout": 0}, {}, "objectives.0: dropout: expected a number above 0 and below 1"),
        ("simcse", STILL, "objectives.0: simcse compares two passes with different dropout"),
        ("tests:Nothing", {}, "cannot be imported"),
        ("torch.nn:Identity", {}, "objectives.0: 'torch.nn:Identity' is not an objective."),
    ],
)  # fmt: skip
def test_an_unusable_objective_is_reported(
    values: dict[str, Any], objective: Any, encoder: dict[str, Any], says: str
) -> None:
    values["encoder"] |= encoder
    with pytest.raises(RecipeError) as caught:
        check_names(make_recipe({**values, "objectives": [objective]}))
    assert says in str(caught.value)


def test_rdrop_needs_dropout_somewhere(values: dict[str, Any], tmp_path: Path) -> None:
    values["encoder"] |= STILL
    make_recipe({**values, "objectives": ["rdrop"]})  # there is dropout in front of the heads
    values["tasks"]["sts"]["dropout"] = 0.0
    with pytest.raises(RecipeError, match="rdrop compares two passes with different dropout"):
        make_recipe({**values, "objectives": ["rdrop"]})
    make_recipe({**values, "objectives": [{"name": "rdrop", "tasks": ["sst"]}, {"name": "rdrop", "weight": 0}]})


class Squares(Term):
    """A user's own term: the mean of the squared outputs."""

    def values(self, model: Any, batch: Any, forward_pass: Any) -> dict[str, torch.Tensor]:
        return {task: self.weight * forward_pass.outputs[task].square().mean() for task in batch.parts}


def test_a_user_defined_term_is_named_by_module_and_class(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_terms.py").write_text(
        "from palbert.objectives import Term\n\n\nclass Squares(Term):\n"
        "    def values(self, model, batch, forward_pass):\n"
        "        return {task: self.weight * forward_pass.outputs[task].square().mean() for task in batch.parts}\n"
    )
    own = {"name": "my_terms:Squares", "weight": 2.0}
    assert trained(values, tmp_path / "run", [own]) != trained(values, tmp_path / "plain", [])


def test_a_selection_of_tasks_has_the_same_outputs_as_in_the_whole_batch(scene: MakeScene) -> None:
    stage = scene()
    batch = stage.batch()
    assert batch.only(stage.tasks) is batch
    whole = stage.model(batch)
    for chosen in ({"classes"}, {"number-siamese"}, {"binary-siamese", "number-joint"}):
        share = batch.only(chosen)
        found = stage.model(share)
        assert found.keys() == chosen
        assert share.starts.dtype == batch.starts.dtype and share.starts[-1] == share.tokens < batch.tokens
        torch.testing.assert_close(found, {task: whole[task] for task in found})


def test_terms_are_added_per_task_weighted_by_the_share_of_the_batch(scene: MakeScene) -> None:
    stage = scene()
    batch = stage.batch([0, 1, 2])  # half of the step's rows
    plain = Objectives(stage.supervised)(stage.model, batch)
    goals = {"classes": stage.goals["classes"]}
    terms = [Squares(goals, weight=1.0), Squares(goals, weight=2.0)]
    found = Objectives(stage.supervised, terms)(stage.model, batch)
    squares = stage.model(batch)["classes"].square().mean() * 0.5
    torch.testing.assert_close(found, {**plain, "classes": plain["classes"] + 3 * squares})


def test_a_term_that_gives_no_table_is_refused(scene: MakeScene) -> None:
    class Nothing(Term):
        def values(self, model: Any, batch: Any, clean: Any) -> Any:
            return None

    stage = scene()
    with pytest.raises(RecipeError, match=r"Nothing.values\(\) gives None; expected a table by training set"):
        Objectives(stage.supervised, [Nothing(stage.goals)])(stage.model, stage.batch())
