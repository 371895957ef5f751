"""Extra sets: further training rows for a task, with their own mapping, factor, batch size and length."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.errors import RecipeError
from palbert.recipe.load import dump_recipe, load_recipe, make_recipe
from palbert.training.hooks import read_records
from palbert.verbs.check import check_data

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Write = Callable[..., Path]


@pytest.fixture
def nli(tmp_path: Path) -> Path:
    """Write pairs with three labels, one of which is dropped."""
    rows = [("A dog runs.", "An animal moves.", "entailment"), ("A dog runs.", "A cat sleeps.", "contradiction")]
    rows += [("A dog runs.", "The dog is brown.", "neutral"), ("A man sings.", "Somebody sings.", "entailment")]
    path = tmp_path / "nli.tsv"
    path.write_text("premise\thypothesis\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    path = tmp_path / "reviews.tsv"
    lines = [f"{number}\t{'good ' * 40}film number {number}\t{number % 2}\n" for number in range(10)]
    path.write_text("id\tsentence\tsentiment\n" + "".join(lines), "utf-8")
    return path


def values(encoder: Path, nli: Path, reviews: Path, **training: Any) -> dict[str, Any]:
    return {
        "seed": 3,
        "data": "samples",
        "encoder": {"name": str(encoder)},
        "tasks": {
            "sst": {"extra": {"cfimdb": {"train": str(reviews), "batch_size": 2, "max_length": 16}}},
            "quora": {"extra": {"snli": {"train": str(nli)}}},
        },
        "training": {"epochs": 1, "steps_per_epoch": 60, "batch_size": 4, "log_every": 1, **training},
        "optimizer": {"learning_rate": 1e-3},
        "run": {"device": "cpu", "tensorboard": False},
    }


def test_catalog_sets_come_with_label_mapping_factor_and_batch_size(
    tiny_encoder: Path, nli: Path, reviews: Path
) -> None:
    given = values(tiny_encoder, nli, reviews)
    del given["tasks"]["sst"]["extra"]["cfimdb"]["batch_size"]
    sets = make_recipe(given).sets
    assert list(sets) == ["sst", "sst+cfimdb", "quora", "quora+snli"]
    reviewed = sets["sst+cfimdb"]
    assert (reviewed.files.labels, reviewed.batch_size, reviewed.max_length) == ("x4", 8, 16)
    assert sets["quora+snli"].files.text == ("premise", "hypothesis")
    assert make_recipe(given).factors == {"quora+snli": 0.1}
    assert sets["sst"].max_length == 128 and sets["sst"].files.target == reviewed.files.target


def test_a_file_with_its_own_label_mapping_can_join_other_training_files(
    tiny_encoder: Path, nli: Path, tmp_path: Path, write_recipe: Write
) -> None:
    mapped: dict[str, Any] = {"path": str(nli), "text": ["premise", "hypothesis"], "label": "label"}
    mapped["labels"] = {"entailment": 1, "contradiction": 0, "neutral": "drop"}
    samples = Path(palbert.__file__).parent / "data" / "samples"
    tasks = {"quora": {"train": [str(samples / "quora-train.tsv"), mapped], "dev": str(samples / "quora-dev.tsv")}}
    own = {**values(tiny_encoder, nli, nli, steps_per_epoch=2), "tasks": tasks, "data": str(samples)}
    run = palbert.train(write_recipe(own), out=tmp_path / "run")
    rows = json.loads((run / "report.json").read_text("utf-8"))["rows"]["quora"]["train"]
    assert rows == len((samples / "quora-train.tsv").read_text("utf-8").splitlines()) - 1 + 3


def test_rows_are_mapped_onto_the_labels_of_the_task(tiny_encoder: Path, nli: Path, reviews: Path) -> None:
    recipe = make_recipe(values(tiny_encoder, nli, reviews))
    found = {summary.name: summary for summary in check_data(recipe) if summary.split == "train"}
    assert list(found["sst+cfimdb"].labels) == [0, 4] * 5
    assert list(found["quora+snli"].labels) == [1, 0, 1] and found["quora+snli"].dropped == 1
    assert found["sst+cfimdb"].truncated == 10 and found["sst+cfimdb"].max_length == 16


def test_a_run_draws_every_set_by_its_factor_and_reports_each(
    tiny_encoder: Path, nli: Path, reviews: Path, write_recipe: Write, tmp_path: Path
) -> None:
    own = {"name": "temperature", "temperature": float("inf")}  # all sets are equal except for their factors
    run = palbert.train(write_recipe(values(tiny_encoder, nli, reviews, sampler=own)), out=tmp_path / "run")
    records = read_records(run / "metrics.jsonl")
    [epoch] = [record for record in records if record["kind"] == "epoch"]
    assert epoch["planned"] == pytest.approx(
        {"sst": 60 / 3.1, "sst+cfimdb": 60 / 3.1, "quora": 60 / 3.1, "quora+snli": 6 / 3.1}, abs=0.01
    )
    assert sum(epoch["drawn"].values()) == 60 and epoch["drawn"]["sst+cfimdb"] > 5
    named = {name for record in records if record["kind"] == "train" for name in record["losses"]}
    assert named == {name for name, count in epoch["drawn"].items() if count}
    report = json.loads((run / "report.json").read_text("utf-8"))
    assert report["rows"]["sst+cfimdb"] == {"train": 10} and report["rows"]["quora+snli"] == {"train": 3}
    assert set(report["tasks"]) == {"sst", "quora"}
    assert any("sst+cfimdb train: 10 of 10 rows were cut at 16 tokens" in note for note in report["notes"])
    hashed = load_recipe(run / "recipe.toml").provenance
    assert hashed is not None and {str(nli), str(reviews)} <= set(hashed.data_sha256)
    assert palbert.load(run).predict("sst", ["good"])
    assert set(palbert.evaluate(run, split="train").summary["tasks"]) == {"sst", "quora"}


@pytest.mark.parametrize("method", ["sum", "pcgrad", {"name": "pcgrad", "memory": "recompute"}])
def test_sets_of_one_task_share_a_step_and_count_as_one_task(
    tiny_encoder: Path, nli: Path, reviews: Path, write_recipe: Write, tmp_path: Path, method: Any
) -> None:
    given = values(tiny_encoder, nli, reviews, sampler="mixed", gradients=method, steps_per_epoch=4)
    given["adapters"] = {"name": "low-rank", "size": 4}
    given["objectives"] = [{"name": "rdrop", "tasks": ["sst"]}]
    run = palbert.train(write_recipe(given), out=tmp_path / "run")
    lines = [record for record in read_records(run / "metrics.jsonl") if record["kind"] == "train"]
    assert set(lines[0]["losses"]) == {"sst", "sst+cfimdb", "quora", "quora+snli"}
    if method != "sum":
        assert set(lines[0]["cosines"]) == {"sst/quora"}


def test_a_factor_that_the_sampler_ignores_is_reported(
    tiny_encoder: Path,
    nli: Path,
    reviews: Path,
    write_recipe: Write,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = values(tiny_encoder, nli, reviews, sampler="round-robin", steps_per_epoch=4)
    palbert.train(write_recipe(given), out=tmp_path / "run")
    said = [record.getMessage() for record in caplog.records if "have no effect" in record.getMessage()]
    assert said == ["The factors of quora+snli have no effect: sampler 'round-robin' draws nothing."]


def test_a_resolved_recipe_reads_back_unchanged(tiny_encoder: Path, nli: Path, reviews: Path, tmp_path: Path) -> None:
    recipe = make_recipe(values(tiny_encoder, nli, reviews))
    (tmp_path / "again.toml").write_text(dump_recipe(recipe), "utf-8")
    assert load_recipe(tmp_path / "again.toml") == recipe


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"snli": {"train": "nowhere.tsv"}}, "tasks.quora.extra.snli.train: no such file: "),
        ({"mine": {"labels": {"yes": 1}}}, "tasks.quora.extra.mine.train: missing. Training files"),
        (
            {"snli": {"train": "nli.tsv", "factors": 2}},
            "tasks.quora.extra.snli.factors: unknown key. Did you mean tasks.quora.extra.snli.factor?",
        ),
        ({"snli": {"train": "nli.tsv", "factor": -1}}, "tasks.quora.extra.snli.factor: "),
        ({"snli": {"train": "nli.tsv", "text": "premise"}}, "extra.snli: text names 1 column, the task has 2"),
        ({"a b": {"train": "nli.tsv"}}, "tasks.quora.extra.a b"),
    ],
)
def test_an_unreadable_set_is_refused_with_its_place(
    tiny_encoder: Path, nli: Path, reviews: Path, tmp_path: Path, extra: dict[str, Any], said: str
) -> None:
    given = values(tiny_encoder, nli, reviews)
    given["tasks"]["quora"]["extra"] = extra
    with pytest.raises(RecipeError) as refused:
        make_recipe(given, folder=tmp_path)
    assert said in refused.value.message
