"""Reading recipes: TOML, --set, the catalog's defaults, errors with their places, and writing them again."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from palbert.errors import RecipeError
from palbert.recipe import load
from palbert.recipe.load import dump_recipe, find_recipe, list_recipes, load_recipe, make_recipe
from palbert.tasks.catalog import CATALOG, HUB_SOURCES, SAMPLES

ROOT = Path(__file__).parents[3]
OURS = [
    path for path in (ROOT / "recipes").rglob("*.toml") if "description" in load.read_toml(path)
]  # tables have none
SHIPPED = sorted([*load.BUILTIN_FOLDER.glob("*.toml"), *OURS])
SST = {"data": "samples", "tasks": ["sst"]}


def refusal(values: dict[str, Any]) -> list[str]:
    """Return the lines that a recipe is refused with."""
    with pytest.raises(RecipeError) as caught:
        make_recipe(values, name="my.toml")
    return str(caught.value).splitlines()


def write(folder: Path, text: str, name: str = "my.toml") -> Path:
    (folder / name).write_text(text, "utf-8")
    return folder / name


@pytest.fixture
def own_data(tmp_path: Path) -> Path:
    """Make a folder with small files of several kinds."""
    for name in ("train.csv", "dev.csv", "more.tsv"):
        (tmp_path / name).write_text("a,b,score\nx,y,1\n")
    return tmp_path


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_recipe_loads(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if path.parent != load.BUILTIN_FOLDER:  # its data may be elsewhere
        monkeypatch.setenv("PALBERT_DATA", str(tmp_path))
        monkeypatch.setattr(load, "_missing_files", lambda recipe: [])
    recipe = load_recipe(path)
    assert recipe.tasks
    assert recipe.description


def test_the_demo_loads_by_name() -> None:
    recipe = load_recipe("demo")
    assert list(recipe.tasks) == list(SAMPLES)
    assert recipe == load_recipe(load.BUILTIN_FOLDER / "demo.toml")
    assert all(Path(source.path).is_file() for task in recipe.tasks.values() for source in (*task.train, *task.dev))


def test_the_list_holds_built_in_recipes_and_those_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    write(tmp_path / "recipes", 'description = "Mine."', "mine.toml")
    write(tmp_path / "recipes", "= broken", "broken.toml")
    listed = dict(list_recipes())
    assert listed["demo"] == load_recipe("demo").description
    assert listed["recipes/mine.toml"] == "Mine."
    assert listed["recipes/broken.toml"].startswith("not valid TOML")


def test_an_unknown_recipe_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(RecipeError, match=r"No recipe file 'dmeo'.*Did you mean 'demo'\?"):
        find_recipe("dmeo")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"sead": 1}, "my.toml: sead: unknown key. Known: "),
        ({"training": {"epoch": 1}}, "my.toml: training.epoch: unknown key. Known: "),
        ({"tasks": {"sst": {"wieght": 2}}}, "my.toml: tasks.sst.wieght: unknown key. Known: "),
        ({"tasks": {"sst": {"train": {"path": "a.csv", "txt": "b"}}}}, "my.toml: tasks.sst.train.0.txt: unknown key. "),
        ({"provenance": {"version": {}}}, "my.toml: provenance.version: unknown key. Known: "),
    ],
)
def test_an_unknown_key_is_refused_with_its_place_and_the_nearest_name(change: dict[str, Any], line: str) -> None:
    (told,) = refusal({**SST, **change})
    assert told.startswith(line)
    nearest = {"sead": "seed", "epoch": "epochs", "wieght": "weight", "txt": "text", "version": "versions"}
    assert told.endswith(f"Did you mean '{nearest[line.split(': ')[1].split('.')[-1]]}'?")


@pytest.mark.parametrize(
    ("change", "place", "found"),
    [
        ({"seed": "one"}, "seed", "'one'"),
        ({"seed": -1}, "seed", "-1"),
        ({"training": {"epochs": 2.5}}, "training.epochs", "2.5"),
        ({"training": {"epochs": 0}}, "training.epochs", "0"),
        ({"training": {"clip": 0}}, "training.clip", "0"),
        ({"optimizer": {"learning_rate": "fast"}}, "optimizer.learning_rate", "'fast'"),
        ({"optimizer": {"learning_rate": -1e-5}}, "optimizer.learning_rate", "-1e-05"),
        ({"encoder": {"dropout": 1.0}}, "encoder.dropout", "1.0"),
        ({"run": {"device": "gpu"}}, "run.device", "'gpu'"),
        ({"run": {"precision": "fp8"}}, "run.precision", "'fp8'"),
        ({"overall": "median"}, "overall", "'median'"),
        ({"tasks": {"sst": {"max_length": 1}}}, "tasks.sst.max_length", "1"),
        ({"tasks": {"sst": {"labels": 4}}}, "tasks.sst.labels", "4"),
        ({"tasks": {"sst": 3}}, "tasks.sst", "3"),
        ({"tasks": 3}, "tasks", "3"),
        ({"data": 3}, "data", "3"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place_and_what_was_found(
    change: dict[str, Any], place: str, found: str
) -> None:
    told = refusal({**SST, **change})
    assert told[0].startswith(f"my.toml: {place}: ")
    assert told[0].endswith(f", found {found}.")


@pytest.mark.parametrize("name", ["int", "train"])
def test_a_task_keeps_its_name_in_the_place_even_if_it_is_an_odd_one(name: str) -> None:
    own = {"kind": "single", "target": "number", "text": "a", "wieght": 1}
    (told,) = refusal({"tasks": {name: own}})
    assert told.startswith(f"my.toml: tasks.{name}.wieght: unknown key.")
    assert told.endswith("Did you mean 'weight'?")


def test_all_errors_are_told_at_once() -> None:
    told = refusal(
        {
            "sede": 1,
            "data": "samples",
            "training": {"epochs": "many", "sampler": "aneald"},
            "tasks": {"sst": {"head": "cosine"}, "own": {"target": "number"}},
        }
    )
    places = {line.split(": ")[1] for line in told}
    assert places == {"sede", "training.epochs", "training.sampler", "tasks.sst", "tasks.own.kind", "tasks.own.text"}
    assert len(told) == len(places)


def test_a_missing_setting_is_refused_with_what_it_means() -> None:
    told = refusal({"tasks": {"own": {"target": "number", "text": "a"}}})
    assert told == ["my.toml: tasks.own.kind: missing. One sentence, or two."]
    assert refusal({}) == [
        "my.toml: tasks: missing. The tasks by name; a name from the catalog brings its settings along."
    ]
    assert refusal({"tasks": []})[0].startswith("my.toml: tasks: ")


@pytest.mark.parametrize("tasks", [["sst-2"], {"sst-2": {}}], ids=["list", "table"])
def test_an_unknown_task_is_refused_with_the_nearest_name(tasks: Any) -> None:
    (told,) = refusal({"data": "samples", "tasks": tasks})
    assert told.startswith(f"my.toml: tasks.sst-2: unknown task. Known: {', '.join(sorted(CATALOG))}.")
    assert "Did you mean 'sst'?" in told


def test_two_tasks_of_one_name_in_a_list_are_refused() -> None:
    with pytest.raises(RecipeError, match="two tasks of one name: sst"):
        make_recipe({"data": "samples", "tasks": ["sst", "sts", "sst"]})


def test_two_tables_of_one_name_are_refused_with_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, 'data = "samples"\n[tasks.sst]\n[tasks.sts]\n[tasks.sst]\n')
    with pytest.raises(RecipeError, match=r"my\.toml: not valid TOML: .*sst"):
        load_recipe(path)


@pytest.mark.parametrize("content", [b"seed = ", b"seed = '\xff'"], ids=["syntax", "not UTF-8"])
def test_a_file_that_is_not_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "my.toml").write_bytes(content)
    with pytest.raises(RecipeError, match=r"my\.toml: not valid TOML"):
        load_recipe(tmp_path / "my.toml")


def test_missing_files_are_all_named(tmp_path: Path) -> None:
    told = refusal({"data": str(tmp_path), "tasks": ["sst", "sts"]})
    assert [line.split(": ")[1] for line in told] == [
        "tasks.sst.train",
        "tasks.sst.dev",
        "tasks.sts.train",
        "tasks.sts.dev",
    ]
    assert told[0].endswith(f"no such file: {tmp_path / 'ids-sst-train.csv'}")


def test_a_task_without_files_is_refused_with_what_to_set() -> None:
    told = refusal({"tasks": ["sst"]})
    assert [line.split(": ")[1] for line in told] == ["tasks.sst.train", "tasks.sst.dev"]
    assert all("no file given" in line and 'data = "samples"' in line for line in told)


def test_hub_data_needs_no_files() -> None:
    recipe = make_recipe({"data": "hub", "tasks": sorted(HUB_SOURCES)})
    assert all(task.train[0].path.startswith("hf:") for task in recipe.tasks.values())


def test_relative_files_start_at_the_recipe(own_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[tasks.own]\nkind = "single"\ntarget = "number"\ntext = "a"\ntrain = "train.csv"\ndev = "./dev.csv"\n'
    monkeypatch.chdir("/")
    task = load_recipe(write(own_data, text)).tasks["own"]
    assert (task.train[0].path, task.dev[0].path) == (str(own_data / "train.csv"), str(own_data / "dev.csv"))


def test_relative_files_start_at_the_data_folder(own_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_DATA", str(own_data))
    own = {"kind": "single", "target": "number", "text": "a", "train": "train.csv", "dev": "dev.csv"}
    recipe = make_recipe({"data": "$MY_DATA", "tasks": {"own": own}}, folder=Path("/"))
    assert recipe.tasks["own"].dev[0].path == str(own_data / "dev.csv")


def test_what_a_variable_of_the_shell_says_starts_where_the_user_is(
    own_data: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own_data.parent)
    monkeypatch.setenv("MY_DATA", own_data.name)
    monkeypatch.setenv("MY_ENCODER", str(tiny_encoder))
    own = {"kind": "single", "target": "number", "text": "a", "train": "train.csv", "dev": "$MY_DATA/dev.csv"}
    recipe = make_recipe({"data": "$MY_DATA", "encoder": "$MY_ENCODER", "tasks": {"own": own}}, folder=Path("/"))
    assert (recipe.tasks["own"].train[0].path, recipe.tasks["own"].dev[0].path) == (
        str(own_data / "train.csv"),
        str(own_data / "dev.csv"),
    )
    assert recipe.encoder.name == str(tiny_encoder)


def test_an_encoders_folder_is_looked_for_beside_the_recipe_and_where_the_user_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, beside = tmp_path / "here", tmp_path / "beside"
    for folder in (here / "one", here / "both", beside / "both", here / "minilm"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)
    found = {
        name: make_recipe({"data": "samples", "tasks": ["sst"], "encoder": name}, folder=beside).encoder.name
        for name in ("one", "both", "minilm", "bert-base-uncased")
    }
    assert found == {
        "one": str(here / "one"),
        "both": str(beside / "both"),
        **{n: n for n in ("minilm", "bert-base-uncased")},
    }


def test_teachers_that_are_set_by_hand_start_where_the_user_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, 'data = "samples"\n[tasks.sst]\nteachers = "runs/one"\n')
    monkeypatch.chdir("/")
    assert load_recipe(path).tasks["sst"].teachers == (str(tmp_path / "runs/one"),)
    assert load_recipe(path, overrides=["tasks.sst.teachers=runs/two"]).tasks["sst"].teachers == ("/runs/two",)


def test_a_task_has_one_name() -> None:
    with pytest.raises(RecipeError, match=r"tasks\.sst\.name: 'other' is another name than the task's. Leave it out"):
        make_recipe({"data": "samples", "tasks": {"sst": {"name": "other"}}})


def test_an_unset_variable_in_a_path_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_DATA", raising=False)
    with pytest.raises(RecipeError, match=r"'\$MY_DATA'.*not set"):
        make_recipe({"data": "$MY_DATA", "tasks": ["sst"]})


def test_the_courses_test_files_are_taken_where_they_are(tmp_path: Path) -> None:
    for name in ("ids-sst-train.csv", "ids-sst-dev.csv"):
        (tmp_path / name).touch()
    assert make_recipe({"data": str(tmp_path), "tasks": ["sst"]}).tasks["sst"].test == ()
    (tmp_path / "ids-sst-test-student.csv").touch()
    (source,) = make_recipe({"data": str(tmp_path), "tasks": ["sst"]}).tasks["sst"].test
    assert source.path == str(tmp_path / "ids-sst-test-student.csv")


def test_a_recipes_own_settings_stand_above_the_catalogs() -> None:
    recipe = make_recipe({"data": "samples", "tasks": {"sst": {"pooling": "mean", "max_length": 9}}})
    assert (recipe.tasks["sst"].pooling.name, recipe.tasks["sst"].max_length) == ("mean", 9)
    assert recipe.tasks["sst"].classes == CATALOG["sst"]["classes"]


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
def test_set_changes_one_value(tmp_path: Path, override: str, place: tuple[str, ...], value: object) -> None:
    path = write(
        tmp_path, 'data = "samples"\nencoder = "minilm"\n[tasks.sst]\n[training]\nsampler = "annealed"\nepochs = 2\n'
    )
    found: Any = load_recipe(path, overrides=[override])
    for part in place:
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    assert found == value


def test_set_onto_an_encoders_name_keeps_the_name(tmp_path: Path) -> None:
    path = write(tmp_path, 'data = "samples"\nencoder = "minilm"\n[tasks.sst]\n')
    recipe = load_recipe(path, overrides=["encoder.dropout=0.3"])
    assert (recipe.encoder.name, recipe.encoder.dropout) == ("minilm", 0.3)


def test_set_into_a_list_of_tasks_keeps_the_others(tmp_path: Path) -> None:
    path = write(tmp_path, 'data = "samples"\nencoder = "minilm"\ntasks = ["sst", "sts"]\n')
    recipe = load_recipe(path, overrides=["tasks.sst.weight=0.5"])
    assert {name: task.weight for name, task in recipe.tasks.items()} == {"sst": 0.5, "sts": 1.0}


def test_of_two_overrides_the_later_wins() -> None:
    assert load_recipe("demo", overrides=["seed=1", "seed=2"]).seed == 2


def test_a_phase_that_says_what_is_set_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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
        "--set training.epochs=7: a phase that says this itself keeps it: first",
        "--set optimizer.learning_rate=1e-3: a phase that says this itself keeps it: phases.1",
    ]


@pytest.mark.parametrize("override", ["seed", "=3", " = 3"])
def test_set_without_key_or_value_is_refused(override: str) -> None:
    with pytest.raises(RecipeError, match="expected key=value"):
        load_recipe("demo", overrides=[override])


def test_set_below_a_plain_value_is_refused() -> None:
    with pytest.raises(RecipeError, match="'seed' is not a table"):
        load_recipe("demo", overrides=["seed.more=1"])


def test_set_of_an_unknown_key_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(RecipeError, match=r"training\.epoch: unknown key.*Did you mean 'epochs'\?"):
        load_recipe("demo", overrides=["training.epoch=1"])


OWN = {
    "kind": "pair",
    "target": "number",
    "range": [-1, 1],
    "text": ["a", "b"],
    "label": "score",
    "id": "row",
    "train": ["train.csv", {"path": "more.tsv", "text": ["x", "y"], "label": "z", "labels": "x0.25", "quoting": "on"}],
    "dev": "dev.csv",
    "labels": {"yes": 1, "no": -1, "neither": 0.5, "?": "drop", "with space": 0, 'quote"d': 0, "ünï": 0},
    "pair_input": "siamese",
    "head": {"name": "cosine", "scale": 2.0},
    "loss": "my_module:Huber",
    "weight": 0.5,
    "batch_size": 4,
}


@pytest.mark.parametrize(
    "values",
    [
        SST,
        {"data": "samples", "tasks": sorted(SAMPLES)},
        {"data": "hub", "tasks": ["snli", "quora"]},
        {"tasks": {"own": OWN}},
        {"data": "samples", "tasks": {"sst": {}, "sts": {"range": None, "labels": "×0.5"}}},
        {**SST, "training": {"clip": math.inf, "sampler": {"name": "annealed", "decay": 0.5}}},
        {**SST, "training": {"steps_per_epoch": 3, "gradients": "my.gradients:Mine"}},
        {**SST, "optimizer": {"schedule": {"name": "stlr", "warmup": 0.2}, "head_learning_rate": 1e-3}},
        {**SST, "encoder": {"name": "a/b@main", "dropout": 0.0}, "description": 'a "quoted" line\n and 中文'},
        {**SST, "provenance": {"versions": {"torch": "2"}, "data_sha256": {"/a b/c.csv": "0f"}}},
    ],
    ids=["sst", "samples", "hub", "own", "nothing", "clip", "steps", "rates", "encoder", "provenance"],
)
def test_a_recipe_written_and_read_again_is_the_same(own_data: Path, values: dict[str, Any]) -> None:
    recipe = make_recipe(values, folder=own_data)
    elsewhere = own_data / "elsewhere"
    elsewhere.mkdir()
    assert load_recipe(write(elsewhere, dump_recipe(recipe))) == recipe


def test_a_written_recipe_holds_every_default() -> None:
    text = dump_recipe(make_recipe(SST))
    for line in ("epochs = 3", "weight_decay = 0.01", 'pooling = "cls"', 'loss = "cross-entropy"', 'device = "auto"'):
        assert line in text.splitlines()


def test_folders_in_a_file_start_at_the_file_and_folders_in_overrides_where_the_user_is(
    own_data: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
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


def test_an_override_takes_the_place_of_a_variable_that_is_not_set(
    own_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_DATA", raising=False)
    task = 'kind = "single"\ntarget = "number"\ntext = "a"\ntrain = "train.csv"\ndev = "dev.csv"\n'
    path = write(own_data, f'data = "$MY_DATA"\n[tasks.own]\n{task}')
    recipe = load_recipe(path, overrides=[f"data={own_data}"])
    assert recipe.tasks["own"].dev[0].path == str(own_data / "dev.csv")


def test_a_folder_with_a_dollar_sign_is_a_folder(own_data: Path) -> None:
    odd = own_data / "a$b"
    odd.mkdir()
    for name in ("train.csv", "dev.csv"):
        (odd / name).write_text("a\nx\n")
    own = {"kind": "single", "target": "number", "text": "a", "train": "train.csv", "dev": "dev.csv"}
    recipe = make_recipe({"data": str(odd), "tasks": {"own": own}})
    assert recipe.tasks["own"].dev[0].path == str(odd / "dev.csv")


def test_plain_text_starts_at_the_data_folder_or_beside_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    for folder in (tmp_path, tmp_path / "rows"):
        (folder / "mine.txt").write_text("a text")
    files = 'train = "mine.csv"\ndev = "mine.csv"\nkind = "single"\ntarget = "binary"\ntext = "text"\n'
    (tmp_path / "rows" / "mine.csv").write_text("text,label\na,1\n")
    own = f'data = "rows"\n[pretraining]\ntext = "mine.txt"\n[tasks.mine]\n{files}'
    samples = 'data = "samples"\ntasks = ["sst"]\n[pretraining]\ntext = ["mine.txt"]\n'
    for text, expected in [(own, tmp_path / "rows"), (samples, tmp_path)]:
        recipe = load_recipe(write(tmp_path, text))
        assert recipe.pretraining and recipe.pretraining.text == (str(expected / "mine.txt"),)
        (tmp_path / "again.toml").write_text(dump_recipe(recipe), "utf-8")
        assert load_recipe(tmp_path / "again.toml") == recipe


def test_plain_text_given_by_hand_starts_where_the_user_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "mine.txt").write_text("a text")
    path = write(tmp_path, 'data = "samples"\ntasks = ["sst"]\n')
    monkeypatch.chdir(tmp_path / "here")
    for override in ("pretraining.text=mine.txt", "pretraining.text=['mine.txt']"):
        recipe = load_recipe(path, overrides=[override])
        assert recipe.pretraining and recipe.pretraining.text == (str(tmp_path / "here" / "mine.txt"),)


def test_plain_text_that_is_not_there_or_of_another_kind_is_refused_with_all_else(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text("# a text")
    values = {"data": "samples", "tasks": {"sst": {"dev": "none.tsv"}}}
    with pytest.raises(RecipeError) as caught:
        make_recipe({**values, "pretraining": {"text": ["none.txt", "mine.md"]}}, folder=tmp_path)
    assert len(caught.value.message.splitlines()) == 3
    assert f"recipe: pretraining.text: no such file: {tmp_path / 'none.txt'}" in caught.value.message
    assert f"expected .txt files, one text a line, found {tmp_path / 'mine.md'}" in caught.value.message
