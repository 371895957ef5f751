"""Display: tables as text and as escaped HTML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palbert.reporting.display import (
    ROWS,
    Summary,
    Table,
    memory_table,
    prediction_table,
    shown_bytes,
    summary_table,
)
from palbert.verbs.predict import Prediction

SUMMARY: dict[str, Any] = {
    "metrics": {"<tone>": "accuracy"},
    "tasks": {"<tone>": {"accuracy": 0.5, "macro_f1": 0.4}},
    "baselines": {"constant": {"<tone>": 0.25}, "other": {}},
    "intervals": {"<tone>": {"low": 0.45, "high": 0.55}},
    "overall": 0.5,
    "formula": "tone.accuracy",
    "encoder": "minilm",
    "seed": 3,
    "split": "dev",
    "seconds": 61.4,
    "device": "cpu",
    "precision": "fp32",
    "notes": ["A <small> sample."],
}


def test_columns_of_a_text_are_aligned() -> None:
    assert Table(("a", "long name"), [("longer", "b")], ["below"]).text() == "a       long name\nlonger  b\n\nbelow"


def test_html_is_escaped_everywhere(tmp_path: Path) -> None:
    page = Table(("<a>",), [("<b>",)], ["<c>"]).html(links={"<d>": tmp_path / "<e> f.html"})
    assert all(f"&lt;{letter}&gt;" in page for letter in "abcd")
    assert "%3Ce%3E%20f.html" in page
    assert not any(f"<{letter}>" in page for letter in "cde")


def test_a_link_starts_at_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert 'href="runs/mine/report.html"' in Table((), []).html(links={"x": tmp_path / "runs/mine/report.html"})


def test_a_long_table_says_how_many_rows_are_left_out() -> None:
    table = Table(("n",), [(str(number),) for number in range(ROWS + 1000)])
    assert table.text().splitlines()[-1] == "… and 1,000 more"
    assert "… and 1,000 more" in table.html() and f"<td>{ROWS}<" not in table.html()


def test_a_summary_is_a_dict_that_is_shown_as_scores_next_to_baselines() -> None:
    summary = Summary(SUMMARY)
    assert json.loads(json.dumps(summary)) == SUMMARY
    lines = repr(summary).splitlines()
    assert lines[0].split("  ")[0] == "task"
    assert lines[1].split() == ["<tone>", "accuracy", "0.250", "–", "0.500", "0.450", "…", "0.550"]
    assert lines[-1] == "Note: A <small> sample."
    assert "&lt;tone&gt;" in summary._repr_html_() and "A &lt;small&gt; sample." in summary._repr_html_()


def test_names_in_a_table_have_no_effect_on_the_terminal() -> None:
    shown = Table(("task\x1b[2J",), [("a\nb\u202e",)], ("Note: \x9b",)).text()
    assert shown.splitlines() == [r"task\u001b[2J", r"a\u000ab\u202e", "", r"Note: \u009b"]


def test_a_report_of_pretraining_is_shown_as_it_is() -> None:
    assert summary_table({"loss": 2.5, "rows": 3}).text().split() == ["value", "loss", "2.5", "rows", "3"]


def test_predictions_are_shown_next_to_their_texts() -> None:
    found = [Prediction("kind", {"rude": 0.25, "kind": 0.75}), Prediction(["a", "b"]), Prediction(1.23456)]
    table = prediction_table(found, ["Thanks!", ("one", "two"), "x" * 100])
    assert list(table.header) == ["text", "answer", "rude", "kind"]
    assert list(table.rows[0]) == ["Thanks!", "kind", "0.250", "0.750"]
    assert list(table.rows[1]) == ["one | two", "a, b", "–", "–"]
    assert table.rows[2][0] == "x" * 79 + "…" and table.rows[2][1] == "1.235"
    many = prediction_table(found * 100)
    assert "… and 280 more" in many.text()


def test_the_memory_of_a_step_that_does_not_fit_is_said_so() -> None:
    parts = ("parameters", "gradients", "optimizer", "other", "activations", "graphs", "total")
    phase = {"phase": "1", "step": 7, "sets": ["sst", "sts"], "tokens": 5, "measured": None}
    facts = {"device": "cuda", "precision": "bf16", "capacity": 2**31, "measured_by": "nothing", "worst": 0}
    table = memory_table({**facts, "phases": [{**phase, "predicted": dict.fromkeys(parts, 2**30)}]})
    assert "1.00 GiB predicted, does not fit measured, on cuda with 2.00 GiB (bf16)" in table.lines[0]


@pytest.mark.parametrize(
    ("count", "text"), [(None, "does not fit"), (0, "0.0 MiB"), (3 * 2**19, "1.5 MiB"), (5 * 2**29, "2.50 GiB")]
)
def test_bytes_are_shown_in_mebibytes_and_gibibytes(count: int | None, text: str) -> None:
    assert shown_bytes(count) == text
