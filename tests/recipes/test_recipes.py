"""Every recipe that comes with palbert can be read and trained, on small data with a tiny encoder."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path

import pytest

import palbert
from palbert.errors import RecipeError
from palbert.recipe.load import BUILTIN_FOLDER, list_recipes, read_toml
from palbert.recipe.paths import SAMPLES_FOLDER
from palbert.recipe.space import load_space
from palbert.tasks.catalog import COURSE_FILES
from palbert.verbs.tuning.check import check_space

ROOT = Path(__file__).parents[2]
OURS = [
    path
    for path in sorted((ROOT / "recipes").rglob("*.toml"))
    if path.parent.name != "smoke" and "description" in read_toml(path)  # test_smoke.py, test_tables.py
]
SPACES = sorted((ROOT / "recipes").rglob("*-space.toml"))
RECIPES = [*sorted(BUILTIN_FOLDER.glob("*.toml")), *OURS]

pytestmark = pytest.mark.usefixtures("_course_files")


@pytest.fixture
def _course_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the sample rows in the format of the course: tabs, quotes, an index column without a name."""
    folder = tmp_path / "course"
    folder.mkdir()
    for task in ("sst", "quora", "sts"):
        for split in ("train", "dev", "test"):
            sample = SAMPLES_FOLDER / f"{task}-{'dev' if split == 'test' else split}.tsv"  # there are none for tests
            header, *rows = [line.split("\t") for line in sample.read_text("utf-8").splitlines()]
            with (folder / COURSE_FILES[task][split]).open("w", encoding="utf-8", newline="") as stream:
                writer = csv.writer(stream, delimiter="\t")
                writer.writerow(["", *header])
                writer.writerows([str(index), *row[:-1], f"{float(row[-1])}"] for index, row in enumerate(rows))
    # What the best models use in addition to the course's files.
    phrases = (SAMPLES_FOLDER / "sst-train.tsv").read_text("utf-8").replace("sentence", "phrase", 1)
    (folder / "sst-phrases-train.tsv").write_text(phrases, "utf-8")
    (tmp_path / "quora").mkdir()
    shutil.copy(SAMPLES_FOLDER / "quora-train.tsv", tmp_path / "quora" / "quora-train-merged.tsv")
    monkeypatch.setenv("PALBERT_DATA", str(folder))


def small(encoder: Path) -> list[str]:
    """Return the settings that let any recipe train in a second."""
    return [
        f"encoder.name={encoder}",
        "training.epochs=1",
        "training.steps_per_epoch=2",
        "training.batch_size=4",
        "run.device=cpu",
        "run.tensorboard=false",
    ]


def test_there_are_recipes_of_both_kinds() -> None:
    assert {"demo"} <= {path.stem for path in RECIPES}
    assert OURS


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_says_in_one_line_what_it_does(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    listed = dict(list_recipes())
    description = listed[recipe.stem if recipe.parent == BUILTIN_FOLDER else str(recipe.relative_to(ROOT))]
    assert len(description) > 20 and "\n" not in description
    assert "not valid TOML" not in description


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_trains(recipe: Path, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # reports without plots are quicker
    run = palbert.train(recipe, out=tmp_path / "run", overrides=small(tiny_encoder))
    report = json.loads((run / "report.json").read_text("utf-8"))
    tasks = palbert.load_recipe(recipe).tasks
    assert set(report["tasks"]) == set(tasks)
    for name, rows in report["rows"].items():
        assert all(count > 100 for count in rows.values()) and rows["train"] > 300, name
    assert 0 < report["overall"] < 1


def test_the_course_files_hold_the_rows_they_were_made_from(tiny_encoder: Path) -> None:
    from palbert.build import load_training_sets
    from palbert.data.tokenizer import TextTokenizer

    tokenizer = TextTokenizer.from_folder(tiny_encoder)
    course = load_training_sets(palbert.load_recipe(ROOT / "recipes" / "course.toml"), tokenizer)
    samples = load_training_sets(palbert.load_recipe("demo"), tokenizer)
    for name, each in course.items():
        found, expected = each.rows, samples[name].rows
        assert list(found.ids) == list(expected.ids)
        assert [list(column) for column in found.texts] == [list(column) for column in expected.texts]
        assert found.labels is not None and expected.labels is not None
        assert found.labels.tolist() == expected.labels.tolist()


def test_a_recipe_without_its_data_folder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PALBERT_DATA")
    with pytest.raises(RecipeError, match=r"'\$PALBERT_DATA': this environment variable is not set\. .* data=DIR"):
        palbert.load_recipe(ROOT / "recipes" / "course.toml")


@pytest.mark.parametrize("space", SPACES, ids=lambda path: path.stem)
def test_a_space_fits_the_recipe_next_to_it(space: Path) -> None:
    recipe = space.with_name(space.name.replace("-space", ""))
    check_space(load_space(space), lambda overrides: palbert.load_recipe(recipe, overrides=overrides))
