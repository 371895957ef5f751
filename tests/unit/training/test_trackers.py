"""Trackers: the real libraries, offline, get all records, and a resumed run continues its own."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from palbert.errors import MissingExtraError, TrainingError
from palbert.training import trackers
from palbert.training.trackers import check_trackers, open_trackers, scalars

RECORDS: list[dict[str, Any]] = [
    {"kind": "train", "step": 10, "losses": {"sst": 0.5, "sts+nli": None}, "tokens_per_second": 7.0},
    {"kind": "evaluation", "step": 20, "overall": 0.75, "tasks": {"sst": {"accuracy": 0.75}}},
]
CONFIG = {"seed": 3, "training": {"epochs": 2, "time_limit": None}}


def test_the_numbers_of_a_record_have_names() -> None:
    found = dict(scalars(RECORDS[0]))
    assert found["losses/sst"] == 0.5 and found["tokens_per_second"] == 7.0 and found["losses/sts+nli"] != 0
    assert dict(scalars(RECORDS[1])) == {"overall": 0.75, "sst/accuracy": 0.75}


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    check_trackers({"wandb": "", "mlflow": ""})
    with pytest.raises(MissingExtraError, match=r"Weights & Biases needs wandb.*palbert\[wandb\]"):
        check_trackers({"wandb": "mine"})


def test_nothing_is_opened_or_written_unless_asked_for(tmp_path: Path) -> None:
    assert open_trackers({"wandb": "", "mlflow": ""}, tmp_path, config=CONFIG, resume=False) == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore")  # of the library
def test_mlflow_gets_settings_records_and_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    page = tmp_path / "report.html"
    page.write_text("<p>fine</p>")
    ids = set()
    for resume, record in zip((False, True), RECORDS, strict=True):
        [tracker] = open_trackers({"mlflow": "mine"}, tmp_path, config=CONFIG, resume=resume).values()
        tracker(record)
        tracker.close(complete=False)
        ids.add(tracker.id)
    assert len(ids) == 1
    tracker.report({"sst/accuracy": 0.5}, page)
    tracker.close(complete=True)
    assert isinstance(tracker, trackers.MLflow)
    run = tracker.client.get_run(tracker.id)
    assert run.data.params == {"seed": "3", "training.epochs": "2"} and run.info.status == "FINISHED"
    assert run.data.metrics["losses/sst"] == 0.5 and run.data.metrics["report/sst/accuracy"] == 0.5
    assert [each.path for each in tracker.client.list_artifacts(tracker.id)] == ["report.html"]


def test_wandb_gets_settings_records_and_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, Any]] = []

    class Run:
        id = "abc"
        summary: ClassVar[dict[str, float]] = {}
        log = staticmethod(lambda values, step: calls.append(("log", (step, values))))
        save = staticmethod(lambda path, **options: calls.append(("save", path)))
        finish = staticmethod(lambda exit_code: calls.append(("finish", exit_code)))

    def init(**options: Any) -> Run:
        calls.append(("init", (options["project"], options["config"], options["id"], options["resume"])))
        return Run()

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    for resume in (False, True):
        [tracker] = open_trackers({"wandb": "mine"}, tmp_path, config=CONFIG, resume=resume).values()
    tracker(RECORDS[1])
    tracker.report({"overall": 0.5}, tmp_path / "report.html")
    tracker.close(complete=True)
    assert calls == [
        ("init", ("mine", CONFIG, None, None)),
        ("init", ("mine", CONFIG, "abc", "allow")),
        ("log", (20, {"overall": 0.75, "sst/accuracy": 0.75})),
        ("save", str(tmp_path / "report.html")),
        ("finish", 0),
    ]
    assert Run.summary == {"report/overall": 0.5}


def test_an_error_of_a_service_names_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **settings: Any) -> None:
        raise ValueError("no login")

    monkeypatch.setitem(trackers.TRACKERS, "wandb", (refuse, "W&B needs"))  # type: ignore[arg-type]
    with pytest.raises(TrainingError, match=r"run\.wandb: the service refuses the run: ValueError: no login"):
        open_trackers({"wandb": "mine"}, tmp_path, config={}, resume=False)
