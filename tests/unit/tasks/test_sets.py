"""SetSpec and DataFiles: what a training set inherits from its task, what it sets itself, and how it is read."""

from __future__ import annotations

from typing import Any

import pytest

from palbert.readers import Dialect
from palbert.tasks.catalog import CATALOG
from palbert.tasks.sets import SetSpec, files_of, sets_of
from palbert.tasks.spec import Task


def make(name: str = "quora", **settings: Any) -> Task:
    return Task.model_validate({"name": name, **CATALOG["quora"], **settings})


def extra(**settings: Any) -> SetSpec:
    """Return the extra set of a task with unusual settings."""
    own: dict[str, Any] = {"max_length": 40, "batch_size": 7, "bad_rows": "drop", "quoting": "on", "id": "key"}
    return sets_of(make(**own, extra={"more": {"train": "more.tsv", **settings}}))["quora+more"]


def test_a_task_has_its_own_set_first_and_then_the_extra_ones_in_order() -> None:
    task = make(train="own.tsv", extra={"b": {"train": "b.tsv"}, "a": {"train": "a.tsv", "form": "triplets"}})
    sets = sets_of(task)
    assert list(sets) == ["quora", "quora+b", "quora+a"] == [spec.name for spec in sets.values()]
    assert [spec.place for spec in sets.values()] == ["tasks.quora", "tasks.quora.extra.b", "tasks.quora.extra.a"]
    assert [spec.files.sources[0].path for spec in sets.values()] == ["own.tsv", "b.tsv", "a.tsv"]
    assert all(spec.task is task for spec in sets.values())
    assert [spec.triplets for spec in sets.values()] == [False, False, True]


def test_an_extra_set_inherits_how_its_task_is_read() -> None:
    spec = extra()
    own = sets_of(spec.task)["quora"]
    for field in ("text", "label", "labels", "id", "dialect", "bad_rows", "target", "labelled"):
        assert getattr(spec.files, field) == getattr(own.files, field), field
    assert (spec.max_length, spec.batch_size, spec.factor) == (40, 7, 1.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("text", ("a", "b")),
        ("label", "gold"),
        ("labels", {"yes": 1, "no": 0}),
        ("bad_rows", "error"),
    ],
)
@pytest.mark.parametrize("form", ["rows", "triplets"])
def test_the_settings_of_an_extra_set_override_those_of_its_task(field: str, value: Any, form: str) -> None:
    assert getattr(extra(form=form, **{field: value}).files, field) == value


@pytest.mark.parametrize("form", ["rows", "triplets"])
def test_an_extra_set_has_its_own_dialect(form: str) -> None:
    assert extra(form=form).files.dialect == Dialect(quoting="on")
    assert extra(form=form, quoting="off").files.dialect == Dialect(quoting="off")
    own: dict[str, Any] = {"separator": ";", "encoding": "latin1", "header": ("a", "b"), "sheet": "x", "decimal": ","}
    assert extra(form=form, **own).files.dialect == Dialect(quoting="on", **own)


def test_an_extra_set_has_its_own_length_batch_size_and_factor() -> None:
    spec = extra(max_length=16, batch_size=2, factor=0.5)
    assert (spec.max_length, spec.batch_size, spec.factor) == (16, 2, 0.5)


@pytest.mark.parametrize("pair_input", ["joint", "siamese"])
def test_triplets_are_read_in_the_same_way_for_every_task(pair_input: str) -> None:
    own = {"pair_input": pair_input, "head": "cosine" if pair_input == "siamese" else "linear"}
    extra = {"nli": {"train": "nli.tsv", "form": "triplets"}}
    task = Task.model_validate({"name": "sts", **CATALOG["sts"], **own, "extra": extra})
    spec = sets_of(task)["sts+nli"]
    assert spec.siamese and not spec.joint
    assert (spec.files.text, spec.files.label, spec.files.labelled) == (("premise", "hypothesis"), "label", True)
    assert sets_of(task)["sts"].siamese == (pair_input == "siamese") != sets_of(task)["sts"].joint


def test_triplets_of_three_columns_have_no_labels() -> None:
    assert not extra(form="triplets", text=["a", "b", "c"]).files.labelled
    of_file = extra(form="triplets", train={"path": "more.tsv", "text": ["a", "b", "c"]})
    assert of_file.files.text == ("a", "b", "c") and not of_file.files.labelled


@pytest.mark.parametrize(("split", "optional"), [("train", False), ("dev", False), ("test", True)])
def test_only_test_files_may_lack_labels(split: Any, optional: bool) -> None:
    files = files_of(make(**{split: "rows.tsv"}), split)
    assert files.labels_optional == optional and files.sources[0].path == "rows.tsv"
    assert (files.task, files.split) == ("quora", split)
