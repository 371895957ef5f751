"""Likely keys: synonyms, keys of other sections, and typing errors, with one suggestion each."""

from __future__ import annotations

import pytest

from palbert.recipe.likely import SECTIONS, SYNONYMS, likely_key
from palbert.recipe.schema import Recipe

TOP = list(Recipe.model_fields)


def suggest(place: str) -> str | None:
    *table, _ = parts = place.split(".")
    section = "tasks.NAME" if table[:1] == ["tasks"] else ".".join(table)
    return likely_key(parts, list(SECTIONS[section].model_fields) if table else TOP, TOP)


@pytest.mark.parametrize(
    ("place", "meant"),
    [
        ("lr", "optimizer.learning_rate"),
        ("training.lr", "optimizer.learning_rate"),
        ("optimizer.lr", "optimizer.learning_rate"),
        ("pretraining.lr", "pretraining.learning_rate"),
        ("batch", "training.batch_size"),
        ("training.batch", "training.batch_size"),
        ("num_epochs", "training.epochs"),
        ("training.n_epochs", "training.epochs"),
        ("tasks.reviews.max_len", "tasks.reviews.max_length"),
        ("training.max_len", "tasks.NAME.max_length"),
        ("tasks.reviews.num_labels", "tasks.reviews.classes"),
        ("tasks.reviews.text_column", "tasks.reviews.text"),
        ("tasks.reviews.dev_file", "tasks.reviews.dev"),
        ("dev_file", "tasks.NAME.dev"),
        ("model", "encoder"),
        ("optimizer.epochs", "training.epochs"),
        ("tasks.reviews.epochs", "training.epochs"),
        ("Learning-Rate", "optimizer.learning_rate"),
        ("optimizer.wieght_decay", "optimizer.weight_decay"),
        ("training.seed", "seed"),
        ("zzz", None),
    ],
)
def test_an_unknown_key_has_one_likely_meaning(place: str, meant: str | None) -> None:
    assert suggest(place) == meant


def test_every_synonym_means_a_setting_that_exists() -> None:
    known = {*TOP, *(key for model in SECTIONS.values() for key in model.model_fields)}
    assert set(SYNONYMS.values()) <= known and not set(SYNONYMS) & known


def test_a_phase_has_sections_of_its_own() -> None:
    assert likely_key(["phases", "0", "training", "lr"], [], TOP) == "phases.0.optimizer.learning_rate"


def test_other_files_have_no_other_sections() -> None:
    assert likely_key(["lr"], ["name", "rows"], []) is None
