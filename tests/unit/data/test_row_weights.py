"""Row weights: read with the line of every mistake, combined with class weights, and scaled to mean 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight

from palbert.data.dataset import Dataset, load_dataset
from palbert.data.row_weights import balanced, training_weights
from palbert.data.tokenizer import TextTokenizer
from palbert.data.training_set import TrainingSet
from palbert.errors import DataError
from palbert.tasks.sets import files_of, sets_of
from palbert.tasks.spec import Task

TASK: dict[str, Any] = {
    "name": "own",
    "kind": "single",
    "target": "classes",
    "classes": ["a", "b", "c"],
    "text": "text",
}
ROWS = "text\tlabel\tshare\none\ta\t1\ntwo\tb\t0.5\nthree\tc\t4\nfour\tc\t0\n"


def task(**changes: Any) -> Task:
    return Task.model_validate({**TASK, **changes})


def read(folder: Path, tokenizer: TextTokenizer, content: str = ROWS, **settings: Any) -> Dataset:
    (folder / "rows.tsv").write_text(content, "utf-8")
    own = task(train=str(folder / "rows.tsv"), **{"row_weight": "share", **settings})
    return load_dataset(files_of(own, "train"), tokenizer, cache=folder / "cache")


def test_weights_are_read_and_come_out_of_the_cache(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    for _ in range(2):
        weights = read(tmp_path, tokenizer).weights
        assert weights is not None and weights.tolist() == [1.0, 0.5, 4.0, 0.0]


def test_rows_with_and_without_weights_have_cache_entries_of_their_own(
    tmp_path: Path, tokenizer: TextTokenizer
) -> None:
    assert read(tmp_path, tokenizer, row_weight=None).weights is None
    assert read(tmp_path, tokenizer).weights is not None
    assert read(tmp_path, tokenizer, row_weight=None).weights is None


def test_rows_are_chosen_with_their_weights(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    taken = read(tmp_path, tokenizer).take(np.array([2, 0]))
    assert taken.weights is not None and taken.weights.tolist() == [4.0, 1.0]


@pytest.mark.parametrize("cell", ["-1", "nan", "inf", "1e39", "much"])
def test_what_is_not_a_weight_is_reported_with_its_line(tmp_path: Path, tokenizer: TextTokenizer, cell: str) -> None:
    with pytest.raises(DataError, match=f'rows.tsv, line 3: expected a row weight, a number from 0 to .*found "{cell}'):
        read(tmp_path, tokenizer, ROWS.replace("0.5", cell))


def test_a_row_without_a_weight_is_a_bad_row(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    content = ROWS.replace("0.5", "")
    with pytest.raises(DataError, match="line 3: the column 'share' is empty"):
        read(tmp_path, tokenizer, content)
    kept = read(tmp_path, tokenizer, content, bad_rows="drop")
    assert kept.dropped == 1 and kept.weights is not None and kept.weights.tolist() == [1.0, 4.0, 0.0]


def test_dev_and_test_files_need_no_weights(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    (tmp_path / "dev.tsv").write_text("text\tlabel\none\ta\n", "utf-8")
    own = task(dev=str(tmp_path / "dev.tsv"), row_weight="share")
    assert load_dataset(files_of(own, "dev"), tokenizer, cache=tmp_path / "cache").weights is None


def test_an_extra_set_has_the_column_of_its_task_unless_it_says_otherwise() -> None:
    extra = {"more": {"train": "a.tsv"}, "other": {"train": "b.tsv", "row_weight": "w"}}
    extra["even"] = {"train": "c.tsv", "row_weight": ""}
    sets = sets_of(task(train="t.tsv", row_weight="share", extra=extra))
    assert {name: spec.files.row_weight for name, spec in sets.items()} == {
        "own": "share",
        "own+more": "share",
        "own+other": "w",
        "own+even": "",
    }


def scaled(weights: Any, labels: Any, class_weights: Any = ()) -> Any:
    own = None if weights is None else np.array(weights, dtype=np.float64)
    return training_weights(own, np.array(labels), class_weights, target=task().target, name="own")


def test_weights_of_a_training_set_have_mean_1(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    rows = read(tmp_path, tokenizer)
    own = task(train=str(tmp_path / "rows.tsv"), row_weight="share")
    each = TrainingSet.of(sets_of(own)["own"], rows, batch_size=2)
    assert each.weights is not None
    np.testing.assert_allclose(each.weights, np.array([1, 0.5, 4, 0]) / (5.5 / 4), rtol=1e-6)
    part = each.portion(np.array([2, 0]))
    assert part.weights is each.weights


@pytest.mark.parametrize("weights", [[1, 1, 1, 1], [3, 3, 3, 3]])
def test_equal_weights_are_no_weights(weights: list[float]) -> None:
    assert scaled(weights, [0, 1, 2, 2]) is None
    assert scaled(None, [0, 1, 2, 2]) is None
    assert scaled(None, [0, 1, 2, 0, 1, 2], "balanced") is None


def test_balanced_weights_equal_those_of_scikit_learn() -> None:
    labels = np.random.default_rng(0).choice(3, size=200, p=[0.7, 0.25, 0.05])
    np.testing.assert_allclose(
        balanced(labels, np.ones(200)), compute_class_weight("balanced", classes=np.arange(3), y=labels)
    )
    np.testing.assert_allclose(scaled(None, labels, "balanced"), compute_sample_weight("balanced", labels), rtol=1e-6)


def test_balanced_classes_have_the_same_total_weight_also_with_row_weights() -> None:
    generator = np.random.default_rng(1)
    labels, weights = generator.choice(3, size=100, p=[0.6, 0.3, 0.1]), generator.uniform(0.1, 5, 100)
    totals = np.bincount(labels, weights=scaled(weights, labels, "balanced"))
    np.testing.assert_allclose(totals, 100 / 3, rtol=1e-5)


def test_a_class_without_rows_does_not_count_among_the_balanced_ones() -> None:
    np.testing.assert_allclose(scaled(None, [0, 0, 0, 2], "balanced"), [2 / 3, 2 / 3, 2 / 3, 2], rtol=1e-6)


def test_class_weights_multiply_row_weights() -> None:
    np.testing.assert_allclose(scaled([1, 2, 1], [0, 1, 2], (1, 3, 1)), np.array([1, 6, 1]) * 3 / 8, rtol=1e-6)


def test_rows_without_any_weight_are_refused() -> None:
    with pytest.raises(DataError, match="own train: every row has weight 0"):
        scaled([0, 0], [0, 1])
    with pytest.raises(DataError, match="every row has weight 0"):
        scaled(None, [0, 0], (0, 1, 1))
