"""palbert explain: lines, JSON, pages and files; mistakes in the arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import pytest

import palbert

pytestmark = pytest.mark.usefixtures("on_cpu")

Cli = Callable[..., Any]
PAIR = ("A man plays a guitar.", "Someone <b>makes</b> music.")


def test_words_are_printed_with_their_scores(trained: Path, cli: Cli) -> None:
    result = cli("explain", trained, "--task", "sst", "--text", "Grün 🎸 dull", "--text", "never")
    lines = result.out.splitlines()
    assert result.code == 0 and len(lines) == 6
    assert lines[0].startswith("sst: log odds of ") and "integrated gradients, " in lines[0]
    assert [line.split()[-1] for line in lines[1:4]] == ["Grün", "🎸", "dull"]
    [expected, _] = palbert.load(trained).explain("sst", ["Grün 🎸 dull", "never"])
    assert float(lines[3].split()[0]) == pytest.approx(expected.words[2].score, abs=1e-3)


def test_json_has_explanations_and_similar_rows(trained: Path, cli: Cli) -> None:
    options = ("--method", "occlusion", "--interactions", "--similar", "2", "--json")
    result = cli("explain", trained, "--task", "sts", "--pair", *PAIR, *options)
    [values] = [json.loads(line) for line in result.out.splitlines()]
    assert values["text"] == list(PAIR) and values["method"] == "occlusion"
    assert len(values["similar"]) == 2 and values["interactions"]["left_out"] == 0


def test_interactions_and_similar_rows_are_printed(trained: Path, cli: Cli) -> None:
    result = cli("explain", trained, "--task", "sts", "--pair", *PAIR, "--interactions", "--similar", "2")
    assert "Words that act together, 10 of " in result.out
    assert "Training rows most like it" in result.out and result.code == 0


def test_a_page_is_written_once(trained: Path, tmp_path: Path, cli: Cli) -> None:
    asked = (
        "explain",
        trained,
        "--task",
        "sts",
        "--pair",
        *PAIR,
        "--method",
        "occlusion",
        "--html",
        tmp_path / "why.html",
    )
    assert cli(*asked).code == 0
    page = (tmp_path / "why.html").read_text("utf-8")
    assert "&lt;b&gt;" in page and "<b>" not in page
    assert cli(*asked).code == 2 and cli(*asked, "--force").code == 0


def test_the_page_has_the_similar_rows(trained: Path, tmp_path: Path, cli: Cli) -> None:
    texts, page = ("--text", "Dull.", "--text", "rain"), tmp_path / "why.html"
    asked = ("explain", trained, "--task", "sst", *texts, "--method", "occlusion", "--html", page)
    assert cli(*asked, "--similar", "2").code == 0
    sections = re.findall(r"<section>.*?</section>", page.read_text("utf-8"))
    for section, rows in zip(sections, palbert.load(trained).similar("sst", ["Dull.", "rain"], count=2), strict=True):
        shown = re.findall(r"<td>([\d.]+)</td><td>(.*?)</td><td><span[^>]*>(.*?)</span></td>", section)
        assert shown == [(f"{row.similarity:.3f}", str(row.answer), escape(row.texts[0])) for row in rows]
    assert cli(*asked, "--force").code == 0 and "Training rows" not in page.read_text("utf-8")


def test_a_file_is_explained(trained: Path, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "in.csv").write_text("review\ndull\nrain\n", "utf-8")
    result = cli("explain", trained, "--task", "sst", "--input", tmp_path / "in.csv",
                 "--output", tmp_path / "out.jsonl", "--column", "review", "--target", "neutral")  # fmt: skip
    assert result.code == 0 and "2 explanations written to" in result.err
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert [(line["text"], line["target"]) for line in lines] == [("dull", "neutral"), ("rain", "neutral")]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "explain takes either --text, or --pair, or --input with --output."),
        (["--text", "a", "--pair", "b", "c"], "explain takes either --text, or --pair, or --input with --output."),
        (["--input", "in.csv"], "explain takes either --text, or --pair, or --input with --output."),
        (["--input", "in.csv", "--output", "o.jsonl", "--json"], "--html and --json are for --text and --pair."),
        (["--text", "a"], "Which task's answer?"),
        (["--text", "a", "--task", "sts"], "Task 'sts' takes a pair of texts per row"),
        (["--text", "a", "--task", "sst", "--target", "x"], "Task 'sst' has no class 'x'."),
    ],
)
def test_mistakes_are_reported(options: list[str], says: str, trained: Path, cli: Cli) -> None:
    result = cli("explain", trained, *options)
    assert result.code == 2 and says in result.err and result.out == ""
