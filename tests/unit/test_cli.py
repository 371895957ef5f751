"""The command line: help without waiting, data on stdout, logs on stderr, exit codes, tracebacks on demand."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.cli import app, data_app

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]

VERBS = [[command.callback.__name__] for command in app.registered_commands] + [  # type: ignore[union-attr]
    ["data", command.name] for command in data_app.registered_commands
]
HEAVY = ["torch", "numpy", "tokenizers", "safetensors", "matplotlib", "pyarrow", "huggingface_hub"]


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
    )


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return python("from palbert.cli import main; main()", *arguments)


# Help


def test_the_verbs_are_those_that_were_promised() -> None:
    promised = ["demo", "train", "pretrain", "evaluate", "predict", "compare", "recipes"]
    assert VERBS[: len(promised)] == [[verb] for verb in promised]
    assert ["submit"] in VERBS and ["data", "check"] in VERBS


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_the_help_of_every_verb_shows_an_example_that_names_it(verb: list[str], cli: Cli) -> None:
    for option in ("--help", "-h"):
        result = cli(*verb, option)
        assert result.code == 0
        text = result.out
        assert "Example" in text
        assert f"palbert {' '.join(verb)}" in text.partition("Example")[2]


def test_the_help_of_palbert_lists_every_verb(cli: Cli) -> None:
    result = cli("--help")
    assert result.code == 0
    assert "palbert demo" in result.out
    for verb in VERBS:
        assert f" {verb[0]} " in result.out


def test_no_help_imports_torch_or_anything_else_that_takes_time() -> None:
    code = f"""
import sys
from palbert.cli import main
for verb in {[[], *VERBS]!r}:
    sys.argv = ["palbert", *verb, "--help"]
    try:
        main()
    except SystemExit as end:
        assert not end.code, verb
for arguments in (["--version"], ["train"], ["no-such-verb"], ["predict", "run"]):
    sys.argv = ["palbert", *arguments]
    try:
        main()
    except SystemExit:
        pass
print("\\nHEAVY", [name for name in {HEAVY!r} if name in sys.modules])
"""
    result = python(code)
    assert result.stdout.splitlines()[-1] == "HEAVY []"
    assert result.stdout.count("Example") >= len(VERBS)


def test_importing_palbert_imports_neither_torch_nor_numpy() -> None:
    result = python(f"import sys, palbert; print([name for name in {HEAVY!r} if name in sys.modules])")
    assert (result.stdout, result.stderr) == ("[]\n", "")


def test_reading_a_recipe_does_not_import_torch() -> None:
    result = python("import sys, palbert; palbert.load_recipe('demo'); print('torch' in sys.modules)")
    assert (result.stdout, result.stderr) == ("False\n", "")


def test_every_public_name_is_there() -> None:
    for name in palbert.__all__:
        assert getattr(palbert, name) is not None
    with pytest.raises(AttributeError, match="module 'palbert' has no attribute 'trian'"):
        palbert.trian  # noqa: B018


def test_the_version_is_that_of_the_package(cli: Cli) -> None:
    from importlib.metadata import version

    result = cli("--version")
    assert (result.code, result.out) == (0, f"palbert {version('palbert')}\n")


# Exit codes, as a shell sees them


def test_a_shell_sees_exit_code_2_and_one_message_and_with_debug_the_traceback() -> None:
    result = command("predict", "runs/none", "--task", "sst")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        "error: predict takes either --text, or --pair, or --input with --output.",
        "  See: palbert predict --help",
    ]
    debugged = command("predict", "runs/none", "--task", "sst", "--debug")
    assert (debugged.returncode, debugged.stdout) == (2, "")
    assert debugged.stderr.startswith("Traceback (most recent call last)") and "cli.py" in debugged.stderr
    assert debugged.stderr.endswith(result.stderr)


@pytest.mark.parametrize("place", [0, 1, 3])
def test_debug_works_before_and_after_the_verb(place: int, cli: Cli, tmp_path: Path) -> None:
    arguments = ["predict", str(tmp_path / "no-run"), "--task", "sst", "--text", "a"]
    plain = cli(*arguments)
    assert plain.code == 2 and "Traceback" not in plain.err
    arguments.insert(place if place < 3 else len(arguments), "--debug")
    result = cli(*arguments)
    assert result.code == 2
    assert "Traceback" in result.err and "CheckpointError" in result.err
    assert result.err.endswith(plain.err)


@pytest.mark.parametrize(
    "arguments",
    [["trian"], ["train"], ["train", "demo", "--epochs", "3"], ["predict", "run"], ["evaluate", "r", "--split", "all"]],
)
def test_a_command_that_cannot_be_parsed_ends_with_exit_code_2(arguments: list[str], cli: Cli) -> None:
    result = cli(*arguments)
    assert (result.code, result.out) == (2, "")
    assert "Usage: palbert" in result.err and "Traceback" not in result.err


# predict


def test_predict_answers_texts_one_a_line(trained: Path, cli: Cli) -> None:
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
    asked = lines if task == "sst" else [tuple(line.split("\t")) for line in lines]
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
        ("sts", b"one text\n", "Task 'sts' takes a pair of texts per row; row 0 is ('one text',)."),
    ],
)
def test_lines_that_are_no_questions_are_refused(
    task: str, typed: bytes, says: str, trained: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed), "utf-8"))
    result = cli("predict", trained, "--task", task, "--text", "-")
    assert (result.code, result.out) == (2, "") and says in result.err


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
        (["--task", "sst", "--pair", "a", "b"], "Task 'sst' takes a text per row; row 0 is ('a', 'b')."),
        (["--task", "sts", "--text", "a"], "Task 'sts' takes a pair of texts per row; row 0 is 'a'."),
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


# recipes, train, demo


def test_recipes_lists_those_inside_and_those_here(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    description = "My own recipe, with a description that is a good deal longer than a terminal is wide, " * 2
    (tmp_path / "recipes" / "mine").mkdir(parents=True)
    (tmp_path / "recipes" / "mine" / "one.toml").write_text(f'description = "{description}"\n')
    (tmp_path / "recipes" / "bad.toml").write_text("[")
    monkeypatch.chdir(tmp_path)
    result = cli("recipes")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].split() == ["recipe", "what", "it", "does"]
    assert any(line.startswith("demo ") for line in lines)
    assert any(line.startswith("recipes/mine/one.toml") and description.strip() in line for line in lines)
    assert any(line.startswith("recipes/bad.toml") and "not valid TOML" in line for line in lines)


def test_train_prints_scores_on_stdout_and_progress_on_stderr(
    tiny_recipe: dict[str, Any], write_recipe: Callable[..., Path], tmp_path: Path, cli: Cli
) -> None:
    run = tmp_path / "run"
    result = cli(
        "train", write_recipe({**tiny_recipe, "tasks": {"sst": {}}}), "--out", run, "--set", "training.epochs=1"
    )
    assert result.code == 0
    report = json.loads((run / "report.json").read_text("utf-8"))
    assert f"Overall {report['overall']:.4f} = sst.accuracy" in result.out
    assert result.out.rstrip().endswith(f"Report: {run / 'report.html'}")
    assert "sst train: 385 rows" in result.err and "epoch 1/1: overall" in result.err
    assert "epoch" not in result.out.partition("Overall")[0]


def test_train_writes_to_runs_and_the_recipes_name_unless_told_otherwise(
    tiny_recipe: dict[str, Any],
    write_recipe: Callable[..., Path],
    tmp_path: Path,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    values = {**tiny_recipe, "tasks": {"sst": {}}}
    result = cli("train", write_recipe(values, "quick.toml"), "--set", "training={epochs=1,steps_per_epoch=1}")
    assert result.code == 0
    assert (tmp_path / "runs" / "quick" / "report.json").is_file()


def test_demo_trains_reports_and_answers_three_questions(
    tiny_encoder: Path, tmp_path: Path, cli: Cli, trained: Path
) -> None:
    run = tmp_path / "demo"
    small = ["--set", f"encoder={tiny_encoder}", "--set", "training={epochs=1,steps_per_epoch=3}",
             "--set", "run={device='cpu',tensorboard=false}"]  # fmt: skip
    result = cli("demo", "--out", run, *small)
    assert result.code == 0
    assert result.out.count("→ ") == 3
    for task in ("sst", "quora", "sts"):
        assert f"{task:>6}  " in result.out
    assert f"Report: {run / 'report.html'}" in result.out
    again = cli("demo", "--out", run, *small)
    assert again.code == 2 and "already holds a run" in again.err
