"""A multilabel task from files to reports, with every kind of method."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import palbert
from palbert.data.dataset import load_dataset
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError
from palbert.recipe.load import make_recipe
from palbert.tasks.sets import files_of
from palbert.verbs.check import check_data

Values = dict[str, Any]
CLASSES = ["delivery", "billing", "account", "quality", "praise"]
TOPICS: Values = {
    "kind": "single",
    "target": "multilabel",
    "classes": CLASSES,
    "text": "message",
    "label": "topics",
    "train": "topics-train.tsv",
    "dev": "topics-dev.tsv",
    "pooling": "mean",
}


@pytest.fixture
def values(tiny_recipe: Values) -> Values:
    tiny_recipe["tasks"] = {"topics": dict(TOPICS), "sts": {}}
    tiny_recipe["training"] |= {"epochs": 1, "steps_per_epoch": 3, "log_every": 1, "sampler": "mixed"}
    return tiny_recipe


@pytest.fixture(scope="module")
def run(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train once for all tests that only read."""
    values = {
        "seed": 1,
        "data": "samples",
        "encoder": {"name": str(tiny_encoder), "dropout": 0.0, "attention_dropout": 0.0},
        "tasks": {"topics": dict(TOPICS)},
        "training": {"epochs": 4, "steps_per_epoch": 40, "batch_size": 8},
        "optimizer": {"learning_rate": 3e-3},
        "run": {"device": "cpu", "tensorboard": False},
    }
    return palbert.train(make_recipe(values), out=tmp_path_factory.mktemp("topics") / "run").path


def write(path: Path, rows: list[tuple[str, Any]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"message": text, "topics": tags}) + "\n" for text, tags in rows), "utf-8")
    elif path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table({"message": [r[0] for r in rows], "topics": [r[1] for r in rows]}), path)
    else:
        with path.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([("message", "topics"), *((text, "|".join(tags)) for text, tags in rows)])
    return path


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_lists_and_texts_mean_the_same_labels_and_rows_may_have_none(
    kind: str, tokenizer: TextTokenizer, tmp_path: Path
) -> None:
    rows: list[tuple[str, Any]] = [("one", ["praise", "billing"]), ("two", []), ("three", ["0"])]
    file = write(tmp_path / f"rows.{kind}", rows)
    recipe = make_recipe({"tasks": {"topics": {**TOPICS, "train": str(file), "dev": str(file)}}})
    dataset = load_dataset(files_of(recipe.tasks["topics"], "dev"), tokenizer)
    assert dataset.labels is not None and dataset.labels.dtype == np.float32 and dataset.dropped == 0
    assert dataset.labels.tolist() == [[0, 1, 0, 0, 1], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]]


def test_an_unknown_class_is_refused_with_its_line(tokenizer: TextTokenizer, tmp_path: Path) -> None:
    file = write(tmp_path / "rows.jsonl", [("one", ["praise"]), ("two", ["praise", "weather"])])
    recipe = make_recipe({"tasks": {"topics": {**TOPICS, "train": str(file), "dev": str(file)}}})
    with pytest.raises(DataError, match=r"line 2: expected a label from 0 to 4 or one of delivery.*weather"):
        load_dataset(files_of(recipe.tasks["topics"], "dev"), tokenizer)


def test_a_list_is_refused_where_a_row_has_one_label(tokenizer: TextTokenizer, tmp_path: Path) -> None:
    file = write(tmp_path / "rows.jsonl", [("one", ["praise"])])
    recipe = make_recipe({"tasks": {"topics": {**TOPICS, "target": "classes", "train": str(file), "dev": str(file)}}})
    with pytest.raises(DataError, match="expected a text or a number in 'topics'"):
        load_dataset(files_of(recipe.tasks["topics"], "dev"), tokenizer)


@pytest.mark.parametrize(
    "changes",
    [
        {"objectives": ["smart", "proximal"]},
        {"objectives": ["rdrop", "simcse"], "training": {"accumulation": 2}},
        {"training": {"balance": "uncertainty", "gradients": "cagrad"}},
        {"training": {"balance": "normalised", "average": "ema", "sampler": "annealed"}},
        {"adapters": "pal", "training": {"sampler": "round-robin"}},
        {"tasks": {"topics": {"loss": {"name": "binary-focal", "gamma": 1.0}, "prior": [0.2, 0.2, 0.1, 0.3, 0.4]}}},
        {"tasks": {"topics": {"label_smoothing": 0.1, "head": "mlp", "pooling": "cls"}}},
    ],
    ids=lambda changes: "-".join(changes),
)
@pytest.mark.usefixtures("no_plots")
def test_a_multilabel_task_trains_with_every_method(values: Values, tmp_path: Path, changes: Values) -> None:
    values["training"] |= changes.pop("training", {})
    values["tasks"]["topics"] |= changes.pop("tasks", {}).get("topics", {})
    trained = palbert.train(make_recipe({**values, **changes}), out=tmp_path / "run").path
    report = json.loads((trained / "report.json").read_text("utf-8"))
    assert all(math.isfinite(score) for score in report["tasks"]["topics"].values())
    lines = [json.loads(line) for line in (trained / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert all(math.isfinite(line["losses"]["topics"]) for line in lines if "topics" in line.get("losses", ()))


@pytest.mark.usefixtures("no_plots")
def test_a_multilabel_run_can_be_a_teacher(run: Path, values: Values, tmp_path: Path) -> None:
    values["tasks"]["topics"]["teachers"] = [str(run)]
    trained = palbert.train(make_recipe({**values, "objectives": ["distillation"]}), out=tmp_path / "run").path
    assert (trained / "report.json").is_file()


@pytest.mark.parametrize("pair_input", ["joint", "siamese"])
@pytest.mark.usefixtures("no_plots")
def test_pairs_may_have_several_classes_too(values: Values, tmp_path: Path, pair_input: str) -> None:
    rows = [(f"first {n}", f"second {n % 3}", ["a", "b"][: n % 3]) for n in range(12)]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"x": x, "y": y, "label": label}) + "\n" for x, y, label in rows), "utf-8")
    files = {"train": str(path), "dev": str(path)}
    head = {"joint": "linear", "siamese": "concat"}[pair_input]
    pairs = {"kind": "pair", "target": "multilabel", "classes": ["a", "b"], "text": ["x", "y"], **files}
    values["tasks"] = {"pairs": {**pairs, "pair_input": pair_input, "head": head}}
    trained = palbert.train(make_recipe(values), out=tmp_path / "run").path
    [prediction] = palbert.load(trained).predict("pairs", [("first", "second")])
    assert set(prediction.answer) <= {"a", "b"} and list(prediction.probabilities or ()) == ["a", "b"]


def test_training_fits_and_scores_its_rows(run: Path) -> None:
    report = palbert.evaluate(run, split="train")
    scores = report.summary["tasks"]["topics"]
    assert scores["micro_f1"] > 0.9 and scores["average_precision"] > 0.9
    assert scores["micro_f1"] > report.baselines["majority / mean"]["topics"]
    page = report.page.read_text("utf-8")
    assert "rows with exactly the right classes" in page and "Classes per row" in page


def test_texts_and_files_are_predicted(run: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    text = "The van drove past my door twice without stopping."
    printed = cli("predict", run, "-t", "topics", "--text", text)
    assert printed.out.startswith("delivery  (delivery 0.")
    answer = json.loads(cli("predict", run, "-t", "topics", "--text", text, "--json").out)
    assert answer["prediction"] == ["delivery"] and list(answer["probabilities"]) == CLASSES
    given = write(tmp_path / "in.csv", [(text, []), ("Are you open on the second of January?", [])])
    for kind in ("csv", "tsv", "jsonl"):
        out = tmp_path / f"out.{kind}"
        assert cli("predict", run, "-t", "topics", "--input", given, "--output", out).code == 0
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text("utf-8").splitlines()))
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert [row["prediction"] for row in rows] == ["delivery", ""]
    assert [line["prediction"] for line in lines] == [["delivery"], []]


def test_a_parquet_file_may_begin_with_rows_without_classes(
    run: Path, tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("palbert.verbs.predict_file.CHUNK", 1)
    texts = ["Are you open on the second of January?", "The van drove past my door twice without stopping."]
    given = write(tmp_path / "in.csv", [(text, []) for text in texts])
    assert cli("predict", run, "-t", "topics", "--input", given, "--output", tmp_path / "out.parquet").code == 0
    assert parquet.read_table(tmp_path / "out.parquet")["prediction"].to_pylist() == [[], ["delivery"]]


def test_runs_are_compared_by_predictions_and_by_probabilities(run: Path) -> None:
    [same] = palbert.compare([run, run])
    assert same.metric == "micro_f1" and same.difference.difference == 0
    report = json.loads((run / "report.json").read_text("utf-8"))
    assert same.score == report["tasks"]["topics"]["micro_f1"]


@pytest.mark.usefixtures("no_plots")
def test_a_metric_of_probabilities_may_be_the_main_metric(values: Values, tmp_path: Path) -> None:
    values["tasks"] = {"topics": {**TOPICS, "metrics": ["average_precision"]}}
    trained = palbert.train(make_recipe(values), out=tmp_path / "run").path
    [same] = palbert.compare([trained, trained])
    report = json.loads((trained / "report.json").read_text("utf-8"))
    low, high = report["intervals"]["topics"].values()
    assert low <= report["tasks"]["topics"]["average_precision"] <= high
    assert same.score == pytest.approx(report["tasks"]["topics"]["average_precision"], abs=0.02)


def test_int8_answers_are_close_to_those_of_fp32(run: Path) -> None:
    texts = ["Where is my parcel?", "You charged my card twice."]
    exact, rounded = (palbert.load(run, device="cpu", precision=p).predict("topics", texts) for p in ("fp32", "int8"))
    for one, other in zip(exact, rounded, strict=True):
        assert one.probabilities and other.probabilities
        assert other.probabilities == pytest.approx(one.probabilities, abs=0.1)


def test_the_data_check_describes_the_labels(tiny_encoder: Path) -> None:
    recipe = make_recipe({"data": "samples", "encoder": str(tiny_encoder), "tasks": {"topics": dict(TOPICS)}})
    train, dev = check_data(recipe)
    assert (train.rows, dev.rows, train.empty) == (40, 20, 0)
    assert train.target.spread(train.labels).endswith("per row")
