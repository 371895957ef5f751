"""Fixtures of the tests of reproduction: tables of two rows in their own folder, and made-up results of rows."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from palbert.recipe.paths import SAMPLES_FOLDER
from palbert.tasks.catalog import COURSE_FILES

MakeResult = Callable[..., dict[str, Any]]
SampleRows = Callable[[str], list[dict[str, str]]]

TEXTS = {"sst": ["sentence"], "quora": ["sentence1", "sentence2"], "sts": ["sentence1", "sentence2"]}


@pytest.fixture
def folder(tmp_path: Path, tiny_recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a table of two rows, one that repeats a row, and a claim, where palbert looks for them by name."""
    tiny_recipe["training"].update(epochs=1, steps_per_epoch=3)
    folder = tmp_path / "recipes" / "mine"
    folder.mkdir(parents=True)
    (folder / "base.toml").write_text(tomli_w.dumps({"description": "Base.", **tiny_recipe}), "utf-8")
    table: dict[str, Any] = {
        "title": "My table",
        "rows": {
            "plain": {"label": "plain", "reported": {"sst": 0.5, "overall": 0.6}},
            "frozen": {"label": "frozen", "like": "plain", "settings": {"encoder": {"frozen": True}}, "note": "Heads."},
        },
    }
    again = {"title": "Again", "rows": {"same": {"label": "the same", "like": "one:plain", "reported": {"sts": 0.7}}}}
    claim = {"text": "All weights are better.", "row": "mine/one:plain", "than": ["mine/one:frozen"], "least": 0.0}
    for name, values in {"mine/one": table, "mine/two": again, "claims": {"claims": {"all": claim}}}.items():
        (folder.parent / f"{name}.toml").write_text(tomli_w.dumps(values), "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def make_result() -> MakeResult:
    """Return a function that makes the result of a row and seed, as `collect_result` and a job would."""

    def make(row: str = "plain", *, seed: int = 0, sst: float = 0.5, sts: float = 0.6, **own: Any) -> dict[str, Any]:
        return {
            "table": "mine/one",
            "row": row,
            "label": row,
            "reported": {"sst": 0.5, "overall": 0.6} if row == "plain" else {},
            "fingerprint": row,
            "seed": seed,
            "smoke": False,
            "jobs": 1,
            "overall": (sst + (sts + 1) / 2) / 2,
            "formula": "(sst.accuracy + (sts.pearson + 1) / 2) / 2",
            "tasks": {"sst": {"accuracy": sst, "macro_f1": sst / 2}, "sts": {"pearson": sts}},
            "metrics": {"sst": "accuracy", "sts": "pearson"},
            "seconds": 10.0 + seed,
            "device": "cpu",
            "precision": "fp32",
            "rows": {"sst": {"train": 1000, "dev": 4}, "sts": {"train": 900, "dev": 3}},
            "parameters": {"total": 1000, "trained": 1000 if row == "plain" else 10},
            "encoder": {"name": "tiny-bert", "sha256": "0" * 64},
            "data": {"variant": "samples", "files": {}},
            "losses": {"sst": [[1, 2.0], [2, 1.0]], "sts": [[1, 1.0], [2, 0.5]]},
            "confusion": {"sst": {"classes": ["no", "yes"], "counts": [[1, 1], [0, 2]]}},
            "numbers": {"sts": {"gold": [0.0, 5.0], "predicted": [1.0, 4.0], "rows": [2, 1]}},
            "labels": {"sst": {"sst train": [600, 400], "sst dev": [2, 2]}},
            **own,
        }

    return make


@pytest.fixture
def sample_rows() -> SampleRows:
    """Return a function that reads the first twelve sample rows of a task."""

    def read(task: str) -> list[dict[str, str]]:
        with (SAMPLES_FOLDER / f"{task}-dev.tsv").open(encoding="utf-8") as stream:
            return list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))[:12]

    return read


@pytest.fixture
def course(tmp_path: Path, sample_rows: SampleRows) -> Path:
    """Write test files in the format of the course: an index without a name, tabs, quotes, no labels."""
    folder = tmp_path / "course"
    folder.mkdir()
    for task, names in TEXTS.items():
        with (folder / COURSE_FILES[task]["test"]).open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, delimiter="\t")
            writer.writerow(["", "id", *names])
            for number, row in enumerate(sample_rows(task)):
                writer.writerow([7 * number, f"{task}{number:03}", *(row[name] for name in names)])
    return folder
