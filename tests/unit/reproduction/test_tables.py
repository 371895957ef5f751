"""Tables of results: rows that differ from other rows, by name and by file, and errors that name their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from palbert.errors import RecipeError
from palbert.recipe.load import list_recipes, make_recipe
from palbert.reproduction.tables import known_tables, load_table, load_tables

BASE = """
description = "What the rows differ from."
data = "samples"
encoder = { name = "minilm", dropout = 0.3 }
[tasks.sst]
[tasks.quora]
[training]
epochs = 3
"""
FIRST = """
title = "First"
[rows.plain]
label = "plain"
reported = { sst = 0.5, quora = 0.8, overall = 0.65 }
[rows.pals]
label = "PALs"
settings.adapters = "pal"
[rows.both]
label = "PALs, other order"
like = "pals"
settings.training.sampler = "round-robin"
"""
SECOND = """
title = "Second"
[rows.alone]
label = "sst alone"
like = "first:both"
tasks = ["sst"]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make two tables over one recipe, and change to the folder where they are found by name."""
    folder = tmp_path / "recipes" / "mine"
    folder.mkdir(parents=True)
    for name, text in {"base": BASE, "first": FIRST, "second": SECOND}.items():
        (folder / f"{name}.toml").write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    return folder


def test_a_row_without_settings_is_the_tables_recipe(folder: Path) -> None:
    row = load_table(folder / "first.toml").recipe("plain", seed=4)
    assert row.seed == 4 and row.description == "First: plain"
    given = make_recipe(
        {
            "data": "samples",
            "encoder": {"name": "minilm", "dropout": 0.3},
            "tasks": ["sst", "quora"],
            "training": {"epochs": 3},
        }
    )
    assert row.model_copy(update={"seed": 0, "description": ""}) == given


def test_a_row_adds_to_the_row_it_is_like(folder: Path) -> None:
    row = load_table(folder / "first.toml").recipe("both")
    assert row.adapters is not None and row.adapters.name == "pal"
    assert row.training.sampler.name == "round-robin"
    assert row.encoder.dropout == 0.3


def test_a_row_may_be_like_one_of_another_table_and_keep_some_tasks(folder: Path) -> None:
    first, second = load_tables(["mine/first", folder / "second.toml"])
    alone, both = second.recipe("alone"), first.recipe("both")
    assert list(alone.tasks) == ["sst"] and list(both.tasks) == ["sst", "quora"]
    assert alone.model_copy(update={"tasks": both.tasks, "description": both.description}) == both


def test_tables_are_known_by_name_and_are_not_listed_as_recipes(folder: Path) -> None:
    assert [name for name, _ in known_tables()] == ["mine/first", "mine/second"]
    assert [table.name for table in load_tables(["all"])] == ["mine/first", "mine/second"]
    assert [name for name, _ in list_recipes() if "mine" in name] == ["recipes/mine/base.toml"]


def test_the_rows_of_a_table_may_be_given_in_any_order(folder: Path) -> None:
    rows = ["mine/first:both", "mine/second", "mine/first:plain", "mine/first:both"]
    assert [(table.name, table.chosen) for table in load_tables(rows)] == [
        ("mine/first", ("both", "plain")),
        ("mine/second", ()),
    ]
    for given in (["mine/first", *rows], [*rows, "mine/first"]):
        assert load_tables(given)[0].chosen == ()


def test_overrides_take_precedence_over_the_row(folder: Path) -> None:
    row = load_table("mine/first").recipe("both", encoder="other/name", overrides=["training.epochs=7"])
    assert row.encoder.name == "other/name" and row.encoder.dropout == 0.3
    assert row.training.epochs == 7


def test_a_smoke_row_is_short_and_keeps_its_methods(folder: Path) -> None:
    table = load_table("mine/first")
    row = table.recipe("both", smoke=True)
    assert row.training.epochs * (row.training.steps_per_epoch or 99) < 10
    assert row.adapters is not None and row.training.sampler.name == "round-robin"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('title = "T"\n[rows.a]\nlabel = "a"\nlike = "b"\n[rows.b]\nlabel = "b"\nlike = "a"\n', "refer to each other"),
        ('title = "T"\n[rows.a]\nlabel = "a"\nlike = "c"\n', r"rows\.c: no such row\. Known: a"),
        ('title = "T"\n[rows.a]\nlabel = "a"\ntasks = ["sts"]\n', r"rows\.a\.tasks: unknown task 'sts'\. Known: quora"),
        ('title = "T"\n[rows.a]\nlabel = "a"\nsettings.trainign.epochs = 1\n', r"rows\.a: trainign: unknown key"),
        ('title = "T"\nrecipe = "none.toml"\n[rows.a]\nlabel = "a"\n', r"recipe: no such file: .*none\.toml"),
        ('title = "T"\n[rows.a]\nreported = { sst = "high" }\n', r"(?s)rows\.a\.label: .*rows\.a\.reported\.sst: "),
        (
            'title = "T"\n[rows.a]\nlabel = "a"\nlik = "b"\n',
            r"rows\.a\.lik: unknown key\. Did you mean rows\.a\.like\?",
        ),
        (
            'title = "T"\n[rows.a]\nlabel = "a"\nreported = { "qora.f1" = 0.5 }\n',
            r"rows\.a\.reported: unknown task 'qora'",
        ),
        ("title = \n", "not valid TOML"),
    ],
)
def test_a_wrong_table_is_refused_with_its_place(folder: Path, text: str, complaint: str) -> None:
    path = folder / "wrong.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(RecipeError, match=complaint) as caught:
        load_table(path).recipe("a")
    assert "wrong.toml" in str(caught.value)


def test_an_unknown_table_is_refused_with_the_known_ones(folder: Path) -> None:
    with pytest.raises(RecipeError, match=r"No table 'mine/frist'.*Did you mean 'mine/first'"):
        load_table("mine/frist")
