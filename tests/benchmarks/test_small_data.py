"""The benchmark of small data: rows are drawn without overlap, and the table has a line per task and size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

Script = Callable[[str], Any]
ROWS = [{"text": f"row {number}", "label": "ab"[number % 2]} for number in range(700)]


def test_parts_do_not_overlap_and_have_as_many_rows_as_asked(script: Script) -> None:
    split = script("small_data").parts(ROWS, "8 per class", 0, number=False)
    assert Counter(row["label"] for row in split["train"]) == {"a": 8, "b": 8}
    texts = [row["text"] for rows in split.values() for row in rows]
    assert len(set(texts)) == len(texts) == 16 + 100 + 400


def test_another_seed_draws_other_rows(script: Script) -> None:
    first, second = (script("small_data").parts(ROWS, "100", seed, number=False)["train"] for seed in (0, 1))
    assert len(first) == len(second) == 100 and first != second


def test_rows_without_a_label_are_left_out(script: Script, tmp_path: Path) -> None:
    module = script("small_data")
    (tmp_path / "mine.csv").write_text('text,label\n"a, b",x\nc,\n', "utf-8")
    assert module.read(module.Data("mine.csv", ("text",), "label"), tmp_path) == [{"text": "a, b", "label": "x"}]


def test_the_table_has_mean_and_spread_over_seeds(script: Script) -> None:
    one = {"task": "A", "size": "800", "metric": "accuracy", "rows": 800}
    results = [{**one, "seed": seed, "palbert": 0.7 + seed / 10, "probe": 0.6} for seed in (0, 1)]
    *_, line = script("small_data").table(results)
    assert line == "| A | accuracy | 800 | 0.750 ± 0.071 | 0.600 ± 0.000 | – | – | +0.150 | 2 |"


def test_a_recipe_of_the_benchmark_leaves_training_open(script: Script) -> None:
    module = script("small_data")
    values = module.recipe_of(module.TASKS["SST-2"], ROWS, encoder="minilm", seed=0)
    assert "training" not in values and "optimizer" not in values
