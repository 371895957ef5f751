"""palbert data check: what it counts in a data set with planted mistakes."""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palbert.verbs.check import check_data

Cli = Callable[..., Any]

TRAIN = """message,tone
the soup was great,kind
The  soup was GREAT,kind
the soup was great,rude
you fool,rude
,rude
go away now,
no idea,unsure
one two three four five six seven eight nine ten,neutral
thanks,kind
"""
# The first two rows are also in train; one row is empty, and one appears twice.
DEV = """message,tone
THE SOUP was great,kind
you fool,rude
something new,neutral
something new,neutral
 ,kind
"""
PAIRS_TRAIN = "left\tright\tscore\na b\tc d\t1\nc d\ta b\t1\ne\tf\t2.5\n"
PAIRS_DEV = "left\tright\tscore\nc  D\ta B\t4\ng\th i j k l m n\t3\n"


@pytest.fixture
def recipe(tmp_path: Path, tiny_encoder: Path, write_recipe: Callable[..., Path]) -> Path:
    for name, text in {"tone-train.csv": TRAIN, "tone-dev.csv": DEV}.items():
        (tmp_path / name).write_text(text, "utf-8")
    for name, text in {"alike-train.tsv": PAIRS_TRAIN, "alike-dev.tsv": PAIRS_DEV}.items():
        (tmp_path / name).write_text(text, "utf-8")
    tone = {
        "kind": "single",
        "target": "classes",
        "classes": ["rude", "neutral", "kind"],
        "text": "message",
        "label": "tone",
        "labels": {"rude": "rude", "neutral": "neutral", "kind": "kind", "unsure": "drop"},
        "max_length": 8,
        "train": "tone-train.csv",
        "dev": "tone-dev.csv",
        "test": "tone-test.csv",
    }
    alike = {
        "kind": "pair",
        "target": "number",
        "range": [0.0, 5.0],
        "text": ["left", "right"],
        "label": "score",
        "max_length": 10,
        "train": "alike-train.tsv",
        "dev": "alike-dev.tsv",
    }
    (tmp_path / "tone-test.csv").write_text("message\nyou fool\nsomething new\n", "utf-8")  # no labels; one of dev
    return write_recipe({"encoder": {"name": str(tiny_encoder)}, "tasks": {"tone": tone, "alike": alike}})


def test_every_split_is_counted_correctly(recipe: Path) -> None:
    found = {(item.name, item.split): item for item in check_data(recipe)}
    assert list(found) == [("tone", "train"), ("tone", "dev"), ("tone", "test"), ("alike", "train"), ("alike", "dev")]
    counted = {key: (item.rows, item.empty, item.dropped, item.duplicates, item.leaked, item.truncated)
               for key, item in found.items()}  # fmt: skip
    assert counted == {
        ("tone", "train"): (6, 2, 1, 2, 0, 1),
        ("tone", "dev"): (4, 1, 0, 1, 2, 0),
        ("tone", "test"): (2, 0, 0, 0, 1, 0),
        ("alike", "train"): (3, 0, 0, 1, 0, 0),
        ("alike", "dev"): (2, 0, 0, 0, 1, 1),
    }


def test_labels_and_lengths_are_those_of_the_usable_rows(recipe: Path) -> None:
    train, dev, test, _, pairs = check_data(recipe)
    assert len(test.labels) == 0
    assert train.labels.tolist() == [2, 2, 0, 0, 1, 2]
    assert dev.labels.tolist() == [2, 0, 1, 1]
    # Words and two special tokens, before the cut.
    assert train.lengths.tolist() == [6, 6, 6, 4, 12, 3]
    assert pairs.lengths.tolist() == [7, 11]
    np.testing.assert_array_equal(pairs.labels, np.array([4, 3], dtype=np.float32))


def test_each_sequence_of_a_siamese_pair_is_truncated_separately(recipe: Path) -> None:
    siamese = ["tasks.alike.pair_input=siamese", "tasks.alike.head=concat", "tasks.alike.max_length=3"]
    *_, dev = check_data(recipe, overrides=siamese)
    assert (dev.lengths.tolist(), dev.truncated) == ([4, 3, 4, 9], 3)


def test_findings_come_with_examples(recipe: Path) -> None:
    train, dev, *_ = check_data(recipe)
    assert any(line.startswith("Duplicate with another label: tone train") for line in train.examples)
    assert sum(line.startswith("Duplicate: tone train") for line in train.examples) == 2
    assert [line for line in dev.examples if line.startswith("Also in train")] == [
        "Also in train: tone dev 0: THE SOUP was great",
        "Also in train: tone dev 1: you fool",
    ]


def test_the_command_prints_a_table_and_writes_a_page(recipe: Path, tmp_path: Path, cli: Cli) -> None:
    page = tmp_path / "pages" / "data.html"
    result = cli("data", "check", recipe, "--out", page)
    assert result.code == 0
    assert [" ".join(line.split()) for line in result.out.splitlines()[:6]] == [
        "task split rows labels tokens mean / max truncated empty duplicates in train overlap",
        "tone train 6 33% / 17% / 50% 6 / 12 1 2 2 0 dev 4, test 1",
        "tone dev 4 25% / 50% / 25% 4 / 6 0 1 1 2 –",
        "tone test 2 none 4 / 4 0 0 0 1 –",
        "alike train 3 1 … 2.5, mean 1.50 6 / 7 0 0 1 0 dev 2, dev-texts 2",
        "alike dev 2 3 … 4, mean 3.50 9 / 11 1 0 0 1 –",
    ]
    assert f"Plots: {page}" in result.out
    text = page.read_text("utf-8")
    assert "<svg" in text and "Duplicate with another label" in text and "THE SOUP was great" in text
    assert "Shared with dev and test: <code>dev</code> 4 rows, <code>test</code> 1 row." in text
    assert 'src="' not in text


def test_the_page_is_written_to_the_current_folder_by_default(
    recipe: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert cli("data", "check", recipe).code == 0
    assert [path.name for path in here.iterdir()] == ["data-mine.html"]


def test_clean_data_has_nothing_to_report(tiny_recipe: dict[str, Any], write_recipe: Callable[..., Path]) -> None:
    for item in check_data(write_recipe(tiny_recipe)):
        assert (item.empty, item.duplicates, item.leaked, item.problems) == (0, 0, 0, [])


def test_a_label_outside_the_mapping_is_reported_with_its_place(recipe: Path, tmp_path: Path, cli: Cli) -> None:
    with (tmp_path / "tone-dev.csv").open("a") as stream:
        stream.write("what,furious\n")
    result = cli("data", "check", recipe, "--out", tmp_path / "data.html")
    assert result.code == 2
    assert f"{tmp_path / 'tone-dev.csv'}, line 7: expected one of" in result.err and 'found "furious"' in result.err
    assert not (tmp_path / "data.html").exists()


def test_the_command_gives_advice_below_the_table(recipe: Path, cli: Cli, tmp_path: Path) -> None:
    shown = cli("data", "check", recipe, "--set", "training.auto=false", "--out", tmp_path / "data.html")
    assert "\nAdvice\n- " in shown.out and 'training = "auto"' in shown.out
    assert 'training = "auto"' in html.unescape((tmp_path / "data.html").read_text("utf-8"))
