"""Calibration and thresholds in whole runs: chosen on dev after training, kept in the checkpoint, used everywhere."""

from __future__ import annotations

import csv
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import palbert
from palbert.errors import DataError
from palbert.recipe.load import make_recipe
from palbert.verbs.predict_file import predict_file

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]
QUESTIONS = [("Do I have to tip the movers?", "Are you expected to tip movers?"), ("What is rust?", "Who sings?")]
TOPICS = {
    "kind": "single", "target": "multilabel", "classes": ["delivery", "billing", "account", "quality", "praise"],
    "text": "message", "label": "topics", "train": "topics-train.tsv", "dev": "topics-dev.tsv",
}  # fmt: skip
SETTINGS: dict[str, dict[str, Any]] = {
    "sst": {"calibration": "temperature"},
    "quora": {"calibration": "platt", "threshold": "f1"},
    "topics": {**TOPICS, "threshold": "f1"},
    "sts": {},
}


@pytest.fixture(scope="module")
def trained(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train once for all tests."""
    values = {
        "seed": 1,
        "data": "samples",
        "encoder": {"name": str(tiny_encoder)},
        "tasks": SETTINGS,
        "training": {"epochs": 1, "steps_per_epoch": 8, "batch_size": 8},
        "optimizer": {"learning_rate": 1e-3},
        "run": {"device": "cpu", "tensorboard": False},
    }
    run = palbert.train(make_recipe(values), out=tmp_path_factory.mktemp("decided") / "run")
    return Path(getattr(run, "path", run))


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def stored(run: Path, checkpoint: str = "best") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "checkpoints" / checkpoint / "decisions.json").read_text("utf-8"))
    return found["tasks"]  # type: ignore[no-any-return]


def test_the_best_checkpoint_keeps_what_dev_has_chosen(run: Path) -> None:
    found = stored(run)
    assert set(found) == {"sst", "quora", "topics"}
    assert found["sst"]["scale"][0] > 0 and found["sst"]["shift"] == [0.0] and found["sst"]["thresholds"] == []
    assert len(found["quora"]["thresholds"]) == 1 and len(found["topics"]["thresholds"]) == 5
    assert found["quora"]["rows"] > 0
    assert not (run / "checkpoints" / "last" / "decisions.json").exists()


def test_predictions_are_calibrated_and_use_the_threshold(run: Path) -> None:
    calibrated = palbert.load(run).predict("quora", QUESTIONS)
    decided = stored(run)["quora"]
    (run / "checkpoints" / "best" / "decisions.json").unlink()
    plain = palbert.load(run).predict("quora", QUESTIONS)
    for before, after in zip(plain, calibrated, strict=True):
        assert before.probabilities is not None and after.probabilities is not None
        odds = np.log(before.probabilities["duplicate"] / before.probabilities["different"])
        expected = 1 / (1 + np.exp(-(decided["scale"][0] * odds + decided["shift"][0])))
        assert after.probabilities["duplicate"] == pytest.approx(expected, rel=1e-6)
        assert (after.answer == "duplicate") == (expected > decided["thresholds"][0])


def test_prediction_files_of_an_evaluation_agree_with_predict(run: Path) -> None:
    with (run / "predictions" / "quora-dev.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))[:5]
    found = palbert.load(run).predict("quora", [(row["text1"], row["text2"]) for row in rows])
    assert [row["prediction"] for row in rows] == [each.answer for each in found]
    shares = [each.probabilities["duplicate"] for each in found if each.probabilities]
    assert shares == pytest.approx([float(row["p(duplicate)"]) for row in rows], abs=1e-4)


def test_another_checkpoint_is_decided_when_it_is_evaluated(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    palbert.load(run, checkpoint="last")
    assert "have not been chosen for this checkpoint; run: palbert evaluate" in caplog.text
    palbert.evaluate(run, checkpoint="last")
    assert stored(run, "last").keys() == stored(run).keys()
    caplog.clear()
    palbert.load(run, checkpoint="last")
    assert "have not been chosen" not in caplog.text


def test_evaluating_again_keeps_the_decisions(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = (run / "checkpoints" / "best" / "decisions.json").read_bytes()
    with caplog.at_level(logging.INFO):
        palbert.evaluate(run, split="train")
    assert (run / "checkpoints" / "best" / "decisions.json").read_bytes() == before
    assert "chosen on" not in caplog.text


def test_a_run_can_be_calibrated_afterwards(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    recipe = run / "recipe.toml"
    recipe.write_text(recipe.read_text("utf-8").replace('"temperature"', '"none"', 1), "utf-8")
    with caplog.at_level(logging.INFO):
        palbert.evaluate(run)
    assert "sst" in stored(run)  # nothing is missing, and what is not asked for is not used
    recipe.write_text(
        recipe.read_text("utf-8").replace('calibration = "platt"', 'calibration = "temperature"'), "utf-8"
    )
    with caplog.at_level(logging.INFO):
        palbert.evaluate(run)
    assert "chosen on" in caplog.text and stored(run)["quora"]["calibration"] == "temperature"


def test_a_sure_answer_is_given_and_others_are_not(run: Path) -> None:
    predictor = palbert.load(run)
    everything = predictor.predict("sst", ["A quiet little triumph."], min_confidence=0.0)
    nothing = predictor.predict("sst", ["A quiet little triumph."], min_confidence=1.0)
    assert everything[0].abstained is False and everything[0].answer is not None
    assert nothing[0].abstained is True and nothing[0].answer is None and nothing[0].probabilities is not None
    assert nothing[0].as_dict()["abstained"] is True and nothing[0].as_dict()["prediction"] is None
    assert repr(nothing[0]).startswith("Prediction(answer=None, ") and "abstained=True" in repr(nothing[0])
    assert "abstained" not in predictor.predict("sst", ["A quiet little triumph."])[0].as_dict()


def test_numbers_are_never_withheld(run: Path) -> None:
    predictor = palbert.load(run)
    with pytest.raises(DataError, match="the answers of task 'sts' have no probabilities"):
        predictor.predict("sts", QUESTIONS, min_confidence=0.9)
    [first, _] = predictor.predict_all(QUESTIONS, min_confidence=1.0)
    assert first["sts"].answer is not None and first["quora"].answer is None


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_file_says_where_there_is_no_answer(run: Path, tmp_path: Path, suffix: str) -> None:
    source = tmp_path / "in.csv"
    source.write_text("sentence\nA quiet little triumph.\n", "utf-8")
    predict_file(palbert.load(run), "sst", source, tmp_path / f"out{suffix}", min_confidence=1.0)
    text = (tmp_path / f"out{suffix}").read_text("utf-8")
    if suffix == ".jsonl":
        row = json.loads(text)
        assert row["prediction"] is None and row["abstained"] is True and row["p(neutral)"] > 0
    else:
        [flat] = list(csv.DictReader(text.splitlines()))
        assert flat["prediction"] == "" and flat["abstained"] == "true"


def test_a_file_of_all_tasks_says_where_each_abstained(run: Path, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("sentence1,sentence2\nA man sings.,Someone sings.\n", "utf-8")
    predict_file(palbert.load(run), None, source, tmp_path / "out.csv", min_confidence=1.0)
    [row] = list(csv.DictReader((tmp_path / "out.csv").read_text("utf-8").splitlines()))
    assert row["quora"] == "" and row["quora abstained"] == "true"
    assert row["sts"] and "sts abstained" not in row


def test_the_command_abstains_in_words_and_in_json(run: Path, cli: Cli) -> None:
    shown = cli("predict", run, "-t", "sst", "--text", "A triumph.", "--min-confidence", "1")
    assert shown.code == 0 and shown.out.startswith("abstained  (")
    printed = json.loads(
        cli("predict", run, "-t", "sst", "--text", "A triumph.", "--min-confidence", "1", "--json").out
    )
    assert printed["abstained"] is True and printed["prediction"] is None
    assert cli("predict", run, "-t", "sst", "--text", "A triumph.", "--min-confidence", "2").code == 2
