"""Runs: models by name, what is told about them, and the examples by which a new version is judged."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import palbert

pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from palbert.errors import PalbertError
from palbert.serving.model import ServedModel
from palbert.serving.problems import Problem
from palbert.serving.runs import EXAMPLES, Runs, check_examples, describe, examples_for, warm_up


@pytest.fixture
def named(model: ServedModel) -> Any:
    """Return a function that gives the loaded run another name or folder."""

    def rename(name: str, folder: Path | None = None) -> ServedModel:
        return ServedModel(name, folder or model.folder, model.predictor, model.fingerprint)

    return rename


def test_the_first_run_answers_who_names_none(named: Any) -> None:
    first, second = named("first"), named("second")
    runs = Runs([first, second])
    assert runs.get() is first and runs.get("second") is second and runs.all() == [first, second]
    assert [(each["name"], each["default"]) for each in runs.about()] == [("first", True), ("second", False)]
    with pytest.raises(Problem, match=r"Unknown run 'secnd'\.") as unknown:
        runs.get("secnd")
    assert unknown.value.status == 404 and "Did you mean 'second'?" in (unknown.value.hint or "")


def test_a_newer_version_takes_the_place_of_its_run_and_stays_the_default(named: Any) -> None:
    runs = Runs([named("first"), named("second")])
    newer = named("first")
    runs.replace(newer)
    assert runs.get() is newer and [each["default"] for each in runs.about()] == [True, False]


def test_names_are_written_as_addresses_have_them(named: Any, served_run: Path) -> None:
    assert describe(named("a b#c?d%é"), is_default=True)["report"] == "/report/a%20b%23c%3Fd%25%C3%A9"


@pytest.mark.parametrize(
    "report",
    [
        None,
        "damaged {",
        "[]",
        "{}",
        '{"intervals": [], "tasks": 5, "rows": null, "split": null}',
        '{"intervals": {"sst": {"low": 0.1}}, "tasks": {"sst": []}, "rows": {"sst": 3}, "split": 5}',
        "[" * 100_000,
    ],
)
def test_a_run_without_a_proper_report_is_described_without_scores(
    named: Any, served_copy: Path, report: str | None
) -> None:
    (served_copy / "report.html").unlink()
    if report is None:
        (served_copy / "report.json").unlink()
    else:
        (served_copy / "report.json").write_text(report, "utf-8")
    about = describe(named("demo", served_copy), is_default=True)
    assert about["report"] is None
    task = about["tasks"]["sst"]
    assert (task["score"], task["interval"], task["rows"]) == (None, None, None) and len(task["classes"]) == 5


def test_scores_are_those_of_the_report(named: Any, served_copy: Path) -> None:
    report = json.loads((served_copy / "report.json").read_text("utf-8"))
    report["tasks"]["sst"]["accuracy"] = 0.123
    (served_copy / "report.json").write_text(json.dumps(report), "utf-8")
    assert describe(named("demo", served_copy), is_default=True)["tasks"]["sst"]["score"] == 0.123


def test_every_task_has_examples_of_its_kind(model: ServedModel) -> None:
    for task in model.tasks.values():
        examples = examples_for(task)
        assert len(examples) == EXAMPLES
        assert all(isinstance(each, str if task.kind == "single" else tuple) for each in examples)
    assert examples_for(model.tasks["topics"]) == examples_for(model.tasks["sst"])


def test_a_task_that_only_has_the_name_of_a_sample_gets_examples_of_its_kind(model: ServedModel) -> None:
    other: Any = SimpleNamespace(name="sst", kind="pair", text=("a", "b"))
    assert examples_for(other) == examples_for(model.tasks["sts"])


def test_a_version_with_the_same_answers_differs_in_none(model: ServedModel, named: Any) -> None:
    assert check_examples(named("demo"), model) == 0


def test_versions_are_compared_by_their_answers(model: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def answering(answer: str) -> Any:
        predictor = SimpleNamespace(predict=lambda task, texts: [SimpleNamespace(answer=answer) for _ in texts])
        return SimpleNamespace(tasks={"sst": model.tasks["sst"]}, predictor=predictor)

    assert check_examples(answering("new"), answering("old")) == EXAMPLES
    assert check_examples(answering("old"), answering("old")) == 0


def test_a_version_without_a_task_or_with_other_input_is_refused(model: ServedModel) -> None:
    without: Any = SimpleNamespace(tasks={})
    with pytest.raises(PalbertError, match="has no task 'sst'"):
        check_examples(without, model)
    other: Any = SimpleNamespace(tasks={"sst": model.tasks["sts"]})
    with pytest.raises(PalbertError, match="'sst' takes pair texts"):
        check_examples(other, model)


def test_every_task_has_answered_before_the_first_client_asks(model: ServedModel, passes: list[int]) -> None:
    warm_up(model)
    assert len(passes) == len(model.tasks)


def test_an_audit_of_bias_is_part_of_what_is_said_about_a_run(named: Any, served_copy: Path) -> None:
    assert describe(named("demo", served_copy), is_default=True)["bias"] is None
    found = palbert.audit_bias(served_copy, tasks=["sst"])
    about = describe(named("demo", served_copy), is_default=True)["bias"]
    assert [task["name"] for task in about["tasks"]] == ["sst"] and not about["is_stale"]
    assert about["limits"] == found.summary["limits"]
