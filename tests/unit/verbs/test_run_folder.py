"""The run folder that scripts rely on: every file, its keys, and numbers that other libraries confirm."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from scipy import stats
from sklearn import metrics

import palbert
from palbert.recipe.load import dump_recipe, load_recipe

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

pytestmark = pytest.mark.usefixtures("on_cpu")

TASKS = ("sst", "quora", "sts")
MODEL_FILES = {"model.safetensors", "palbert.json", "tokenizer.json", "palbert.sha256"}


@pytest.fixture
def recipe(trained: Path) -> dict[str, Any]:
    return tomllib.loads((trained / "recipe.toml").read_text("utf-8"))


@pytest.fixture
def records(trained: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (trained / "metrics.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture
def report(trained: Path) -> dict[str, Any]:
    return json.loads((trained / "report.json").read_text("utf-8"))


def predictions(run: Path, task: str, split: str = "dev") -> list[dict[str, str]]:
    with (run / "predictions" / f"{task}-{split}.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def column(rows: list[dict[str, str]], name: str) -> list[str]:
    return [row[name] for row in rows]


def description(run: Path, checkpoint: str) -> dict[str, Any]:
    return json.loads((run / "checkpoints" / checkpoint / "palbert.json").read_text("utf-8"))


def evaluations(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record for record in records if record["kind"] == "evaluation"]


# recipe.toml


def test_the_resolved_recipe_gives_the_same_recipe_when_read_again(trained: Path) -> None:
    text = (trained / "recipe.toml").read_text("utf-8")
    assert dump_recipe(load_recipe(trained / "recipe.toml")) == text


def test_the_resolved_recipe_spells_out_defaults(trained: Path, recipe: dict[str, Any]) -> None:
    given = tomllib.loads((trained.parent / "given.toml").read_text("utf-8"))
    assert "accumulation" not in given["training"] and recipe["training"]["accumulation"] == 1
    assert "weight_decay" not in given["optimizer"] and recipe["optimizer"]["weight_decay"] == 0.01
    assert recipe["tasks"]["sst"]["label"] == "sentiment"
    assert recipe["tasks"]["quora"]["loss"] == "binary-cross-entropy"
    for section in ("training", "optimizer", "run", "encoder"):
        for key, value in given[section].items():
            found = recipe[section][key]
            assert value in (found, found["name"] if isinstance(found, dict) else found)


def test_the_resolved_recipe_holds_the_hash_of_every_data_file(recipe: dict[str, Any]) -> None:
    files = {
        source["path"] for task in recipe["tasks"].values() for split in ("train", "dev") for source in task[split]
    }
    hashes = recipe["provenance"]["data_sha256"]
    assert set(hashes) == files and len(files) == 6
    for file, sha256 in hashes.items():
        assert hashlib.sha256(Path(file).read_bytes()).hexdigest() == sha256


def test_the_resolved_recipe_holds_the_encoders_hash_and_the_versions(
    recipe: dict[str, Any], tiny_encoder: Path
) -> None:
    weights = (tiny_encoder / "model.safetensors").read_bytes()
    assert recipe["provenance"]["encoder_sha256"] == hashlib.sha256(weights).hexdigest()
    versions = recipe["provenance"]["versions"]
    for package in ("torch", "numpy", "tokenizers"):
        assert versions[package].split("+")[0] == version(package).split("+")[0]
    assert versions["palbert"] == palbert.__version__


# metrics.jsonl


def test_metrics_hold_lines_of_three_kinds_with_their_keys(records: list[dict[str, Any]]) -> None:
    keys = {
        "train": {"kind", "step", "epoch", "losses", "learning_rate", "tokens_per_second", "waited", "seconds"},
        "epoch": {"kind", "step", "epoch", "planned", "drawn"},
        "evaluation": {"kind", "step", "epoch", "overall", "tasks"},
    }
    assert {record["kind"] for record in records} == set(keys)
    for record in records:
        assert set(record) == keys[record["kind"]]


def test_metrics_run_in_order_from_the_untrained_model_to_the_last_epoch(records: list[dict[str, Any]]) -> None:
    assert [(record["epoch"], record["step"]) for record in evaluations(records)] == [(0, 0), (1, 32), (2, 64), (3, 96)]
    steps = [record["step"] for record in records if record["kind"] == "train"]
    assert steps == list(range(8, 97, 8))
    seconds = [record["seconds"] for record in records if record["kind"] == "train"]
    assert seconds == sorted(seconds) and seconds[0] > 0
    assert [record["step"] for record in records] == sorted(record["step"] for record in records)


def test_metrics_count_the_batches_of_each_task(records: list[dict[str, Any]]) -> None:
    epochs = [record for record in records if record["kind"] == "epoch"]
    assert len(epochs) == 3
    for record in epochs:  # round robin over three tasks, 32 steps
        assert record["drawn"] == {"sst": 11, "quora": 11, "sts": 10}
        assert record["drawn"] == record["planned"]


def test_metrics_show_that_every_task_learned(records: list[dict[str, Any]]) -> None:
    losses = [record["losses"] for record in records if record["kind"] == "train"]
    for task in TASKS:
        assert losses[-1][task] < losses[0][task]


# report.json and predictions


def test_report_has_the_promised_keys(report: dict[str, Any]) -> None:
    promised = {"overall", "formula", "encoder", "seed", "tasks", "seconds", "parameters"}
    assert promised <= set(report)
    assert set(report["tasks"]["sst"]) >= {"accuracy"}
    assert set(report["tasks"]["quora"]) >= {"accuracy", "precision", "recall", "f1"}
    assert set(report["tasks"]["sts"]) >= {"pearson", "spearman"}
    assert set(report["parameters"]) >= {"encoder", "per_task"}
    assert set(report["parameters"]["per_task"]) == set(TASKS)
    assert (report["seed"], report["split"], report["checkpoint"]) == (1, "dev", "best")


def test_report_counts_the_parameters_that_the_checkpoint_holds(trained: Path, report: dict[str, Any]) -> None:
    from safetensors.numpy import load_file

    weights = load_file(trained / "checkpoints" / "best" / "model.safetensors")
    sizes = {part: sum(value.size for name, value in weights.items() if name.startswith(part)) for part in
             ("encoder.", *(f"heads.{task}." for task in TASKS))}  # fmt: skip
    assert report["parameters"]["encoder"] == sizes["encoder."]
    assert report["parameters"]["per_task"] == {task: sizes[f"heads.{task}."] for task in TASKS}


def test_sentiment_scores_equal_those_of_sklearn_on_the_prediction_file(trained: Path, report: dict[str, Any]) -> None:
    rows = predictions(trained, "sst")
    gold, predicted = column(rows, "gold"), column(rows, "prediction")
    assert len(set(predicted)) > 1, "all answers of the shared run are equal: the comparison would prove nothing"
    scores = report["tasks"]["sst"]
    assert scores["accuracy"] == pytest.approx(metrics.accuracy_score(gold, predicted), abs=1e-12)
    assert scores["macro_f1"] == pytest.approx(metrics.f1_score(gold, predicted, average="macro"), abs=1e-12)


def test_paraphrase_scores_equal_those_of_sklearn_on_the_prediction_file(trained: Path, report: dict[str, Any]) -> None:
    rows = predictions(trained, "quora")
    gold, predicted = ([value == "duplicate" for value in column(rows, name)] for name in ("gold", "prediction"))
    assert len(set(predicted)) > 1, "all answers of the shared run are equal: the comparison would prove nothing"
    scores = report["tasks"]["quora"]
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(gold, predicted, average="binary")
    assert scores["accuracy"] == pytest.approx(metrics.accuracy_score(gold, predicted), abs=1e-12)
    assert (scores["precision"], scores["recall"], scores["f1"]) == pytest.approx((precision, recall, f1), abs=1e-12)


def test_similarity_scores_equal_those_of_scipy_on_the_prediction_file(trained: Path, report: dict[str, Any]) -> None:
    rows = predictions(trained, "sts")
    gold, predicted = (np.array(column(rows, name), dtype=float) for name in ("gold", "prediction"))
    scores = report["tasks"]["sts"]
    # The file holds six digits.
    assert scores["pearson"] == pytest.approx(stats.pearsonr(gold, predicted).statistic, abs=1e-5)
    assert scores["spearman"] == pytest.approx(stats.spearmanr(gold, predicted).statistic, abs=1e-3)
    assert scores["mse"] == pytest.approx(metrics.mean_squared_error(gold, predicted), rel=1e-4)
    assert predicted.min() >= 0 and predicted.max() <= 5


def test_overall_follows_its_formula(report: dict[str, Any]) -> None:
    scores = report["tasks"]
    assert report["formula"] == "(sst.accuracy + quora.accuracy + (sts.pearson + 1) / 2) / 3"
    expected = (scores["sst"]["accuracy"] + scores["quora"]["accuracy"] + (scores["sts"]["pearson"] + 1) / 2) / 3
    assert report["overall"] == pytest.approx(expected, abs=1e-12)


def test_confidence_intervals_contain_the_scores(report: dict[str, Any]) -> None:
    for task, metric in (("sst", "accuracy"), ("quora", "accuracy"), ("sts", "pearson")):
        interval = report["intervals"][task]
        assert interval["low"] < report["tasks"][task][metric] < interval["high"]


def test_baselines_are_the_most_frequent_class_and_the_untrained_heads(
    trained: Path, report: dict[str, Any], records: list[dict[str, Any]], recipe: dict[str, Any]
) -> None:
    constant, untrained, *_ = report["baselines"].values()
    for task, label in (("sst", "sentiment"), ("quora", "is_duplicate")):
        labels = {}
        for split in ("train", "dev"):
            lines = Path(recipe["tasks"][task][split][0]["path"]).read_text("utf-8").splitlines()
            place = lines[0].split("\t").index(label)
            labels[split] = [line.split("\t")[place] for line in lines[1:]]
        most = max(sorted(set(labels["train"])), key=labels["train"].count)
        assert constant[task] == pytest.approx(labels["dev"].count(most) / len(labels["dev"]))
        assert untrained[task] == evaluations(records)[0]["tasks"][task]["accuracy"]
    assert constant["sts"] == 0.0


def test_prediction_files_hold_every_row_with_its_texts_and_probabilities(trained: Path) -> None:
    assert {path.name for path in (trained / "predictions").iterdir()} == {f"{task}-dev.csv" for task in TASKS}
    for task, rows_expected, texts in (("sst", 155, ["text"]), ("quora", 164, ["text1", "text2"])):
        rows = predictions(trained, task)
        assert len(rows) == rows_expected
        assert list(rows[0])[:3] == ["id", "gold", "prediction"] and list(rows[0])[-len(texts) :] == texts
        for row in rows:
            shares = {name[2:-1]: float(value) for name, value in row.items() if name.startswith("p(")}
            assert sum(shares.values()) == pytest.approx(1, abs=1e-5)
            assert row["prediction"] == max(shares, key=shares.__getitem__)
    assert list(predictions(trained, "sts")[0]) == ["id", "gold", "prediction", "text1", "text2"]


# report.html


class Loads(HTMLParser):
    """Collect what a browser would fetch for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset", "data", "action", "poster") and value:
                self.found.append(value)

    handle_startendtag = handle_starttag


def test_report_page_loads_nothing_from_outside(trained: Path) -> None:
    page = (trained / "report.html").read_text("utf-8")
    loads = Loads()
    loads.feed(page)
    assert loads.found, "a page without a single link: is the parser looking at the right thing?"
    assert [address for address in loads.found if not address.startswith(("#", "data:"))] == []
    assert [place for place in re.findall(r"url\(['\"]?([^)'\"]*)", page) if not place.startswith(("#", "data:"))] == []
    assert "@import" not in page and "fetch(" not in page


def test_report_page_shows_tasks_scores_and_recipe(trained: Path, report: dict[str, Any]) -> None:
    page = (trained / "report.html").read_text("utf-8")
    for task in TASKS:
        assert task in page
    assert "<svg" in page
    assert f"{report['overall']:.3f}" in page
    assert "steps_per_epoch = 32" in page


# checkpoints


def test_checkpoints_are_best_last_and_the_best_of_each_task(trained: Path) -> None:
    found = {path.name for path in (trained / "checkpoints").iterdir()}
    assert found == {"best", "last", "previous", *(f"best-{task}" for task in TASKS)}
    for name in found - {"last", "previous"}:
        assert {file.name for file in (trained / "checkpoints" / name).iterdir()} == MODEL_FILES
    assert {file.name for file in (trained / "checkpoints" / "last").iterdir()} >= MODEL_FILES


def test_nothing_in_a_run_is_pickled(trained: Path) -> None:
    suffixes = {path.suffix for path in trained.rglob("*") if path.is_file()}
    assert suffixes == {".toml", ".jsonl", ".json", ".html", ".csv", ".safetensors", ".sha256"}
    for path in trained.rglob("*"):
        if path.is_file():
            assert not path.read_bytes().startswith((b"\x80", b"PK")), f"{path} looks like a pickle"


def test_best_is_the_epoch_with_the_highest_overall_score(
    trained: Path, records: list[dict[str, Any]], report: dict[str, Any]
) -> None:
    best = max(evaluations(records)[1:], key=lambda record: record["overall"])
    saved = description(trained, "best")
    assert saved["step"] == best["step"] == report["step"]
    assert saved["scores"] == {key: best[key] for key in ("epoch", "overall", "tasks")}
    assert report["overall"] == pytest.approx(best["overall"], abs=1e-9)
    for task, scores in best["tasks"].items():
        assert report["tasks"][task] == pytest.approx(scores, abs=1e-6)


@pytest.mark.parametrize(("task", "metric"), [("sst", "accuracy"), ("quora", "accuracy"), ("sts", "pearson")])
def test_best_of_a_task_is_the_epoch_with_its_highest_score(
    task: str, metric: str, trained: Path, records: list[dict[str, Any]]
) -> None:
    best = max(evaluations(records)[1:], key=lambda record: record["tasks"][task][metric])
    assert description(trained, f"best-{task}")["step"] == best["step"]


def test_the_epochs_of_the_shared_run_have_different_scores(trained: Path) -> None:
    assert len({description(trained, f"best-{task}")["step"] for task in TASKS}) > 1


def test_a_loaded_checkpoint_predicts_what_the_evaluation_wrote(trained: Path) -> None:
    model = palbert.load(trained)
    for task in ("sst", "quora"):
        rows = predictions(trained, task)
        texts = column(rows, "text") if task == "sst" else [(row["text1"], row["text2"]) for row in rows]
        answers = model.predict(task, texts)
        assert [answer.answer for answer in answers] == column(rows, "prediction")
        for answer, row in zip(answers, rows, strict=True):
            assert answer.probabilities == pytest.approx(
                {name: float(row[f"p({name})"]) for name in answer.probabilities}, abs=1e-5
            )
    rows = predictions(trained, "sts")
    answers = model.predict("sts", [(row["text1"], row["text2"]) for row in rows])
    assert [answer.answer for answer in answers] == pytest.approx([float(row["prediction"]) for row in rows], rel=1e-5)


def test_a_moved_checkpoint_predicts_without_its_run_or_encoder(trained: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(trained / "checkpoints" / "best", tmp_path / "moved")
    described = json.loads((moved / "palbert.json").read_text("utf-8"))
    assert str(trained) not in json.dumps(described)
    texts = ["A quiet little triumph.", "Dull."]
    assert palbert.load(moved).predict("sst", texts) == palbert.load(trained).predict("sst", texts)


def test_the_same_recipe_and_seed_give_the_same_weights(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palbert.verbs.train.TrainingJob.report", lambda job: None)  # three reports that no test reads
    given = tomllib.loads((trained.parent / "given.toml").read_text("utf-8"))
    given["tasks"] = {"sts": given["tasks"]["sts"]}
    given["training"].update(epochs=1, steps_per_epoch=4)
    weights = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / "r.toml").write_text(tomli_w.dumps({**given, "seed": seed}), "utf-8")
        run = palbert.train(tmp_path / "r.toml", out=tmp_path / name)
        weights.append((run / "checkpoints" / "last" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2]


def test_tensorboard_files_hold_the_losses_of_metrics(trained: Path, tmp_path: Path) -> None:
    given = tomllib.loads((trained.parent / "given.toml").read_text("utf-8"))
    given["tasks"] = {"sts": given["tasks"]["sts"]}
    given["training"].update(epochs=1, steps_per_epoch=4, log_every=2)
    given["run"]["tensorboard"] = True
    (tmp_path / "r.toml").write_text(tomli_w.dumps(given), "utf-8")
    run = palbert.train(tmp_path / "r.toml", out=tmp_path / "run")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    expected = [(line["step"], line["losses"]["sts"]) for line in lines if line["kind"] == "train"]
    found = [(event.step, event.value) for event in events.Scalars("losses/sts")]
    assert [step for step, _ in found] == [2, 4]
    assert found == [(step, pytest.approx(loss, rel=1e-6)) for step, loss in expected]
