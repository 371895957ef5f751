"""palbert predict: one kind of question at a time, answers on stdout, refusals with their reason."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import palbert

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]


def test_predict_answers_texts_one_per_line(trained: Path, cli: Cli) -> None:
    texts = ["A quiet little triumph.", "The dentist drilled the wrong tooth."]
    result = cli("predict", trained, "--task", "sst", "--text", texts[0], "--text", texts[1])
    assert (result.code, result.err) == (0, "")
    for line, prediction in zip(result.out.splitlines(), palbert.load(trained).predict("sst", texts), strict=True):
        name, _, shares = line.partition("  (")
        assert name == prediction.answer
        shown = dict(share.rsplit(" ", 1) for share in shares.rstrip(")").split(", "))
        assert {key: float(value) for key, value in shown.items()} == pytest.approx(prediction.probabilities, abs=6e-4)
        assert [float(value) for value in shown.values()] == sorted(map(float, shown.values()), reverse=True)


def test_predict_answers_a_pair(trained: Path, cli: Cli) -> None:
    pair = ("A man plays a guitar.", "Someone makes music.")
    [prediction] = palbert.load(trained).predict("sts", [pair])
    result = cli("predict", trained, "--task", "sts", "--pair", *pair)
    assert (result.code, result.out) == (0, f"{prediction.answer:.2f}\n")


def test_predict_prints_json_lines(trained: Path, cli: Cli) -> None:
    result = cli("predict", trained, "--task", "sst", "--text", "Grün 🎸", "--text", "", "--json")
    lines = [json.loads(line) for line in result.out.splitlines()]
    answers = palbert.load(trained).predict("sst", ["Grün 🎸", ""])
    assert [line["text"] for line in lines] == ["Grün 🎸", ""]
    for line, answer in zip(lines, answers, strict=True):
        assert line["prediction"] == answer.answer
        assert line["probabilities"] == pytest.approx(answer.probabilities, abs=1e-6)
    pair = json.loads(cli("predict", trained, "--task", "sts", "--pair", "a", "b", "--json").out)
    assert pair["text"] == ["a", "b"] and set(pair) == {"text", "prediction"}


@pytest.mark.parametrize(
    ("task", "typed"), [("sst", "One.\r\n\nTwo, at last."), ("sts", "One.\tTwo.\nThree.\tFour.\n")]
)
def test_predict_answers_the_lines_of_standard_input(
    task: str, typed: str, trained: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = typed.splitlines()
    asked: list[Any] = lines if task == "sst" else [tuple(line.split("\t")) for line in lines]
    answers = palbert.load(trained).predict(task, asked)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode()), "utf-8", newline="\n"))
    result = cli("predict", trained, "--task", task, "--text", "-", "--json")
    found = [json.loads(line) for line in result.out.splitlines()]
    assert [line["text"] for line in found] == [list(text) if task == "sts" else text for text in asked]
    assert [line["prediction"] for line in found] == [pytest.approx(answer.answer, abs=1e-5) for answer in answers]


@pytest.mark.parametrize(
    ("task", "typed", "says"),
    [
        ("sst", b"caf\xe9\n", "standard input: expected UTF-8.\n  Convert it: iconv -f latin1 -t utf-8"),
        ("sts", b"a\tb\none text\n", "line 2: expected two texts with a tab between, found 'one text'."),
        ("sts", b"a\tb\n" * 1030 + b"a\tb\tc\n", "standard input, line 1031: expected two texts"),
    ],
)
def test_lines_that_are_not_questions_are_refused(
    task: str, typed: bytes, says: str, trained: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed), "utf-8"))
    result = cli("predict", trained, "--task", task, "--text", "-")
    assert result.code == 2 and says in result.err


def test_predict_takes_a_checkpoint_by_name(trained: Path, cli: Cli) -> None:
    asked = ("predict", trained, "--task", "sst", "--text", "A quiet little triumph.", "--json")
    assert cli(*asked, "--checkpoint", "best").out == cli(*asked).out != cli(*asked, "--checkpoint", "best-sts").out


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--text", "a", "--pair", "a", "b"],
        ["--text", "a", "--input", "in.csv", "--output", "out.csv"],
        ["--input", "in.csv"],
        ["--output", "out.csv"],
        ["--text", "a", "--output", "out.csv"],
    ],
)
def test_predict_takes_exactly_one_kind_of_question(options: list[str], trained: Path, cli: Cli) -> None:
    result = cli("predict", trained, "--task", "sst", *options)
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "error: predict takes either --text, or --pair, or --input with --output.\n  See: palbert predict --help\n"
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--task", "sst", "--pair", "a", "b"], "Task 'sst' takes a single text, found --pair.\n  Use --text TEXT."),
        (
            ["--task", "sts", "--text", "a"],
            "Task 'sts' takes a pair of texts, found --text.\n  Use --pair FIRST SECOND",
        ),
        (["--task", "stss", "--text", "a"], "Unknown task 'stss'.\n  Known: quora, sst, sts. Did you mean 'sts'?"),
        (["--task", "sst", "--text", "a", "--checkpoint", "bset"], "no checkpoint 'bset'."),
        (["--task", "sst", "--text", "a", "--device", "tpu"], "Unknown device 'tpu'."),
        (["--task", "sst", "--text", "a", "--device", "cuda"], "--device cpu for predict"),
        (["--task", "sst", "--text", "caf\udce9"], "A text is not valid Unicode."),
    ],
)
def test_predict_refuses_questions_that_do_not_fit(options: list[str], says: str, trained: Path, cli: Cli) -> None:
    result = cli("predict", trained, *options)
    assert (result.code, result.out) == (2, "")
    assert says in result.err and "Traceback" not in result.err


def test_without_a_task_all_tasks_that_take_the_input_answer(trained: Path, cli: Cli) -> None:
    pair = ("A man plays a guitar.", "Someone makes music.")
    [answers] = palbert.load(trained).predict_all([pair])
    found = json.loads(cli("predict", trained, "--pair", *pair, "--json").out)
    assert found == {"text": list(pair), **{name: answer.as_dict() for name, answer in answers.items()}}
    lines = cli("predict", trained, "--pair", *pair).out.splitlines()
    assert lines[0] == "A man plays a guitar.  |  Someone makes music."
    assert lines[1].startswith(f"  quora  {answers['quora'].answer}  (")
    assert lines[2] == f"  sts    {answers['sts'].answer:.2f}" and len(lines) == 3
    assert cli("predict", trained, "--text", "dull").out.splitlines()[1].startswith("  sst  ")


def test_without_a_task_lines_are_single_texts_if_any_task_takes_them(
    trained: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"One.\tTwo.\n"), "utf-8"))
    found = json.loads(cli("predict", trained, "--text", "-", "--json").out)
    assert set(found) == {"text", "sst"} and found["text"] == "One.\tTwo."
