"""Overrides: one value changes, paths start at the current folder, and mistakes are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.recipe.load import load_recipe
from palbert.recipe.overrides import apply_override

Refusal = Callable[[dict[str, Any]], list[str]]
WriteFile = Callable[..., Path]


def test_overridden_teachers_start_at_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: WriteFile
) -> None:
    path = write(tmp_path, 'data = "samples"\n[tasks.sst]\nteachers = "runs/one"\n')
    monkeypatch.chdir("/")
    assert load_recipe(path).tasks["sst"].teachers == (str(tmp_path / "runs/one"),)
    assert load_recipe(path, overrides=["tasks.sst.teachers=runs/two"]).tasks["sst"].teachers == ("/runs/two",)


@pytest.mark.parametrize(
    ("override", "place", "value"),
    [
        ("seed=7", ("seed",), 7),
        ("training.epochs=5", ("training", "epochs"), 5),
        (" training.epochs = 5 ", ("training", "epochs"), 5),
        ("training.clip=inf", ("training", "clip"), math.inf),
        ("optimizer.learning_rate=1e-4", ("optimizer", "learning_rate"), 1e-4),
        ("optimizer.betas=[0.8, 0.9]", ("optimizer", "betas"), (0.8, 0.9)),
        ("run.tensorboard=false", ("run", "tensorboard"), False),
        ("run.device=cpu", ("run", "device"), "cpu"),
        ("encoder=bert-base-uncased", ("encoder", "name"), "bert-base-uncased"),
        ("encoder = bert-base-uncased", ("encoder", "name"), "bert-base-uncased"),
        ('encoder="bert-base-uncased"', ("encoder", "name"), "bert-base-uncased"),
        ("encoder.name=/models/a=b", ("encoder", "name"), "/models/a=b"),
        ("encoder.frozen=true", ("encoder", "frozen"), True),
        ("description=two words, and more", ("description",), "two words, and more"),
        ("training.sampler=proportional", ("training", "sampler", "name"), "proportional"),
        ("training.sampler.decay=0.5", ("training", "sampler", "decay"), 0.5),
        ("tasks.sst.weight=0.5", ("tasks", "sst", "weight"), 0.5),
        ('tasks.sst.head={name="mlp", width=3}', ("tasks", "sst", "head", "width"), 3),
        ("tasks.sst.labels.neutral=drop", ("tasks", "sst", "labels", "neutral"), "drop"),
    ],
)
def test_set_changes_one_value(
    tmp_path: Path, override: str, place: tuple[str, ...], value: object, write: WriteFile
) -> None:
    path = write(
        tmp_path, 'data = "samples"\nencoder = "minilm"\n[tasks.sst]\n[training]\nsampler = "annealed"\nepochs = 2\n'
    )
    found: Any = load_recipe(path, overrides=[override])
    for part in place:
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    assert found == value


def test_set_onto_an_encoders_name_keeps_the_name(tmp_path: Path, write: WriteFile) -> None:
    path = write(tmp_path, 'data = "samples"\nencoder = "minilm"\n[tasks.sst]\n')
    recipe = load_recipe(path, overrides=["encoder.dropout=0.3"])
    assert (recipe.encoder.name, recipe.encoder.dropout) == ("minilm", 0.3)


def test_set_into_a_list_of_tasks_keeps_the_others(tmp_path: Path, write: WriteFile) -> None:
    path = write(tmp_path, 'data = "samples"\nencoder = "minilm"\ntasks = ["sst", "sts"]\n')
    recipe = load_recipe(path, overrides=["tasks.sst.weight=0.5"])
    assert {name: task.weight for name, task in recipe.tasks.items()} == {"sst": 0.5, "sts": 1.0}


def test_of_two_overrides_the_later_wins() -> None:
    assert load_recipe("demo", overrides=["seed=1", "seed=2"]).seed == 2


def test_phases_that_an_override_does_not_change_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "phases.toml"
    path.write_text(
        """
        data = "samples"
        tasks = ["sst", "sts"]
        [[phases]]
        name = "first"
        training = { epochs = 1 }
        [[phases]]
        optimizer = { learning_rate = 1e-4 }
        """,
        "utf-8",
    )
    recipe = load_recipe(path, overrides=["training.epochs=7", "training.batch_size=3", "optimizer.learning_rate=1e-3"])
    assert [phase.training.epochs for phase in recipe.phases] == [1, 7]
    assert caplog.messages == [
        "override training.epochs=7: has no effect on phases with a setting of their own: first",
        "override optimizer.learning_rate=1e-3: has no effect on phases with a setting of their own: phases.1",
    ]


@pytest.mark.parametrize("override", ["seed", "=3", " = 3"])
def test_set_without_key_or_value_is_refused(override: str) -> None:
    with pytest.raises(RecipeError, match="expected key=value"):
        load_recipe("demo", overrides=[override])


@pytest.mark.parametrize("override", ["tasks.sst.head=\udcff", "tasks.\udcff.head=linear", "encoder=\udcff"])
def test_bytes_that_are_not_utf8_are_refused(override: str) -> None:
    with pytest.raises(RecipeError, match="expected UTF-8"):
        apply_override({}, override)


def test_set_below_a_plain_value_is_refused() -> None:
    with pytest.raises(RecipeError, match="'seed' is not a table"):
        load_recipe("demo", overrides=["seed.more=1"])


def test_set_of_an_unknown_key_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(RecipeError, match=r"training\.epoch: unknown key.*Did you mean training\.epochs\?"):
        load_recipe("demo", overrides=["training.epoch=1"])


def test_folders_in_a_file_start_at_the_file_and_folders_in_overrides_at_the_current_folder(
    own_data: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, write: WriteFile
) -> None:
    task = 'kind = "single"\ntarget = "number"\ntext = "a"\ntrain = "train.csv"\ndev = "dev.csv"\n'
    recipes = own_data / "recipes"
    (recipes / "encoder").mkdir(parents=True)
    path = write(recipes, f'data = ".."\nencoder = "encoder"\n[tasks.own]\n{task}')
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for name in ("train.csv", "dev.csv"):
        (elsewhere / name).write_text("a\nx\n")
    monkeypatch.chdir(elsewhere)
    recipe = load_recipe(path)
    assert recipe.encoder.name == str(recipes / "encoder")
    assert recipe.tasks["own"].train[0].path == str(own_data / "train.csv")
    assert load_recipe(path, overrides=["data=."]).tasks["own"].train[0].path == str(elsewhere / "train.csv")


def test_an_override_replaces_a_variable_that_is_not_set(
    own_data: Path, monkeypatch: pytest.MonkeyPatch, write: WriteFile
) -> None:
    monkeypatch.delenv("MY_DATA", raising=False)
    task = 'kind = "single"\ntarget = "number"\ntext = "a"\ntrain = "train.csv"\ndev = "dev.csv"\n'
    path = write(own_data, f'data = "$MY_DATA"\n[tasks.own]\n{task}')
    recipe = load_recipe(path, overrides=[f"data={own_data}"])
    assert recipe.tasks["own"].dev[0].path == str(own_data / "dev.csv")


def test_overridden_plain_text_starts_at_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: WriteFile
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "mine.txt").write_text("a text")
    path = write(tmp_path, 'data = "samples"\ntasks = ["sst"]\n')
    monkeypatch.chdir(tmp_path / "here")
    for override in ("pretraining.text=mine.txt", "pretraining.text=['mine.txt']"):
        recipe = load_recipe(path, overrides=[override])
        assert recipe.pretraining and recipe.pretraining.text == (str(tmp_path / "here" / "mine.txt"),)


def test_an_override_below_automatic_training_leaves_the_rest_automatic() -> None:
    values: dict[str, Any] = {"training": "auto"}
    apply_override(values, "training.epochs=5")
    assert values == {"training": {"auto": True, "epochs": 5}}


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("training.epochs=" + "9" * 6000, "a number has too many digits"),
        ("a=" + "[" * 100_000, "nested too deeply"),
        ("a" + ".a" * 5000 + "=1", "no setting is in so many tables"),
    ],
    ids=["digits", "lists", "tables"],
)
def test_an_override_of_absurd_size_is_refused(override: str, says: str) -> None:
    with pytest.raises(RecipeError, match=says):
        load_recipe("demo", overrides=[override])


def test_a_number_is_the_place_in_a_list_of_tables(tmp_path: Path, write: WriteFile) -> None:
    path = write(tmp_path, 'data = "samples"\nobjectives = ["rdrop", { name = "smart", weight = 0.1 }]\n[tasks.sst]\n')
    found = load_recipe(path, overrides=["objectives.1.weight=0.5", "objectives.0.weight=2.0"])
    assert [each.model_dump()["weight"] for each in found.objectives] == [2.0, 0.5]
    assert load_recipe(path, overrides=['objectives.0="smart"']).objectives[0].name == "smart"
    for wrong in ("objectives.2.weight=1", "objectives.one.weight=1", "objectives.2=1", "objectives.-1.weight=1"):
        with pytest.raises(RecipeError, match="in the place of a number from 0 to 1 in a list"):
            load_recipe(path, overrides=[wrong])
