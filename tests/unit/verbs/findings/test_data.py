"""Findings about data: each appears where it applies, and not otherwise."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from palbert.verbs.findings import data
from palbert.verbs.findings.evidence import Evidence

Make = Callable[..., Evidence]
FINDINGS = [
    data.sample_data,
    data.scored_on_training_files,
    data.leaked_rows,
    data.seen_by_encoder,
    data.one_class_in_train,
    data.class_absent_in_train,
    data.class_absent_in_split,
    data.conflicting_labels,
    data.left_out,
    data.cut,
    data.held_out,
]
GOOD, BAD, DULL = ("good", 2), ("bad", 0), ("dull", 1)


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: finding.__name__)
def test_nothing_is_found_in_sound_data(finding: Callable[[Evidence], list[str]], evidence: Make) -> None:
    assert list(finding(evidence())) == []


def test_sample_data_are_a_demonstration(evidence: Make) -> None:
    [note] = data.sample_data(evidence(recipe={"data": "samples"}))
    assert "a demonstration, not a benchmark" in note


def test_training_on_the_scored_files_is_reported_and_not_as_a_leak(evidence: Make) -> None:
    made = evidence(task={"train": ["train.csv", "dev.csv"]}, train=[GOOD, BAD], dev=[GOOD, BAD])
    [note] = data.scored_on_training_files(made)
    assert note == "reviews: trained on its dev rows, so the score says nothing about other rows."
    assert list(data.leaked_rows(made)) == []


@pytest.mark.parametrize("split", ["dev", "test"])
def test_scored_rows_that_are_also_training_rows_are_counted(split: str, evidence: Make) -> None:
    made = evidence(train=[GOOD, BAD], dev=[(" GOOD ", 2), DULL, ("Bad", 1), ("new", 0)], split=split)
    [note] = data.leaked_rows(made)
    assert note.startswith(f"reviews: 2 of 4 (50 %) {split} rows are also training rows")
    assert note.endswith(f'tasks.reviews.drop_overlap = ["{split}"].')


def test_the_training_rows_themselves_are_not_a_leak(evidence: Make) -> None:
    assert list(data.leaked_rows(evidence(train=[GOOD, BAD], dev=[GOOD, BAD], split="train"))) == []


def test_an_encoder_that_has_seen_the_task_is_named(evidence: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "SEEN_BY_ENCODERS", {"reviews": ("minilm",)})
    [note] = data.seen_by_encoder(evidence(recipe={"encoder": "some/MiniLM"}))
    assert note == "some/MiniLM has seen reviews pairs in its own training: its reviews score is not clean."
    assert list(data.seen_by_encoder(evidence())) == []


def test_training_rows_of_one_class_teach_nothing(evidence: Make) -> None:
    made = evidence(train=[GOOD, ("great", 2)])
    [note] = data.one_class_in_train(made)
    assert note.startswith("reviews: all training rows have the class 'good'")
    assert list(data.class_absent_in_train(made)) == []


def test_classes_without_training_rows_are_named(evidence: Make) -> None:
    [note] = data.class_absent_in_train(evidence(train=[GOOD, BAD]))
    assert note.startswith("reviews: no training row has the class 'dull', so it cannot be learned.")


def test_classes_without_scored_rows_are_named(evidence: Make) -> None:
    [note] = data.class_absent_in_split(evidence(dev=[GOOD]))
    assert note.startswith("reviews: no dev row has the class 'bad' or 'dull'")


def test_equal_texts_with_different_labels_are_counted(evidence: Make) -> None:
    [note] = data.conflicting_labels(evidence(train=[GOOD, ("Good", 0), GOOD, BAD, BAD]))
    assert note.startswith("reviews train: 1 of 5 rows repeat the text of another row with a different label.")


def test_rows_left_out_are_counted_by_reason(evidence: Make) -> None:
    counts = {"dropped": 3, "overlapping": 2, "unpaired": 1}
    notes = list(data.left_out(evidence(counts=counts, task={"drop_overlap": ["dev"]})))
    assert notes == [
        "reviews train: 3 rows without text or label were left out.",
        "reviews train: 2 rows were left out because they are also in dev.",
        "reviews train: 1 premises without entailment or contradiction were left out.",
    ]


def test_cut_rows_are_counted_with_the_setting_to_raise(evidence: Make) -> None:
    [note] = data.cut(evidence(counts={"tokens": 7}, task={"max_length": 8}))
    assert note == (
        "reviews train: 11 of 11 rows were cut at 8 tokens. Raise tasks.reviews.max_length to read them whole."
    )


def test_held_out_rows_are_counted(evidence: Make) -> None:
    made = evidence(task={"dev": {"share": 0.2}})
    [note] = data.held_out(made)
    assert note == "reviews: 4 of 15 training rows (26.7%) are held out as dev."
