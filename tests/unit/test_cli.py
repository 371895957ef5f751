"""The command line: help without waiting, exit codes, and tracebacks only with --debug."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.cli import VERBS as GROUPS
from palbert.commands.audit import audit_app
from palbert.commands.data import data_app
from palbert.runtime.children import python_command

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]

VERBS = [[verb.__name__.replace("_", "-")] for verbs in GROUPS.values() for verb in verbs] + [
    [group, str(command.name)]
    for group, group_app in (("data", data_app), ("audit", audit_app))
    for command in group_app.registered_commands
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


def test_no_verb_that_scripts_rely_on_is_missing() -> None:
    promised = [
        "demo",
        "train",
        "pretrain",
        "evaluate",
        "predict",
        "compare",
        "recipes",
        "parts",
        "reproduce",
        "results",
        "submit",
        "card",
        "push",
    ]
    assert [verb for verb in promised if [verb] not in VERBS] == []
    assert ["data", "check"] in VERBS and ["data", "phrases"] in VERBS and ["audit", "log"] in VERBS


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_the_help_of_every_verb_shows_an_example_that_names_it(verb: list[str], cli: Cli) -> None:
    for option in ("--help", "-h"):
        result = cli(*verb, option)
        assert result.code == 0
        text = result.out
        assert "Example" in text
        assert f"palbert {' '.join(verb)}" in text.partition("Example")[2]


def test_the_help_of_palbert_lists_every_verb_below_its_heading(cli: Cli) -> None:
    result = cli("--help")
    assert result.code == 0
    assert "palbert demo" in result.out
    sections = {heading: result.out.partition(f" {heading} ─")[2].partition("╰")[0] for heading in GROUPS}
    for heading, verbs in GROUPS.items():
        assert [
            name for verb in verbs if f" {(name := verb.__name__.replace('_', '-'))} " not in sections[heading]
        ] == []
    assert " data " in sections["Understand"] and " audit " in sections["Understand"]
    assert "Commands" not in result.out


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
    [["trian"], ["train"], ["train", "demo", "--epochs", "3"], ["predict"], ["evaluate", "r", "--split", "all"]],
)
def test_a_command_that_cannot_be_parsed_ends_with_exit_code_2(arguments: list[str], cli: Cli) -> None:
    result = cli(*arguments)
    assert (result.code, result.out) == (2, "")
    assert "Usage: palbert" in result.err and "Traceback" not in result.err


@pytest.mark.parametrize("arguments", [["a\u202e\x1b[31m[red]b"], ["predict", "run", "a\u202e\x1b[31m[red]b"]])
def test_an_argument_that_is_repeated_in_an_error_is_text(arguments: list[str], cli: Cli) -> None:
    shown = cli(*arguments).err
    assert r"a\u202e" in shown and "[31m[red]b" in shown and shown.replace("\n", "").isprintable()


def test_an_unexpected_error_is_reported_as_a_bug(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("no such thing")

    monkeypatch.setattr("palbert.recipe.load.list_recipes", fail)
    monkeypatch.setattr("palbert.cli.OUTSIDE", [])
    result = cli("recipes")
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        "error: RuntimeError: no such thing\n  This is a bug in palbert. Re-run with --debug and report it.\n"
    )
    assert "Traceback" in cli("recipes", "--debug").err


def test_a_file_that_cannot_be_read_is_not_reported_as_a_bug(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise PermissionError(13, "Permission denied", "recipes/mine.toml")

    monkeypatch.setattr("palbert.recipe.load.list_recipes", fail)
    result = cli("recipes")
    assert (result.code, result.err) == (1, "error: [Errno 13] Permission denied: 'recipes/mine.toml'\n")
    assert "Traceback" in cli("recipes", "--debug").err


@pytest.mark.parametrize(
    "error",
    [MemoryError("Unable to allocate 7.45 GiB"), RuntimeError("DefaultCPUAllocator: can't allocate memory: 3 bytes")],
)
def test_a_full_memory_is_not_reported_as_a_bug(error: Exception, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("palbert.recipe.load.list_recipes", fail)
    result = cli("recipes")
    assert result.code == 1 and result.err.startswith(
        "error: there is not enough memory on this machine.\n  Make batch_size"
    )


def test_a_name_that_is_too_long_is_wrong_input(cli: Cli) -> None:
    result = cli("predict", "x" * 5000, "--text", "a")
    assert result.code == 2 and "File name too long" in result.err and len(result.err) < 3000


def test_bugs_of_user_classes_in_the_current_folder_are_not_reported_as_bugs_of_palbert(tmp_path: Path) -> None:
    (tmp_path / "failing_heads.py").write_text(
        "from palbert.extend import Head\n\n\nclass Failing(Head):\n"
        "    def __init__(self, hidden_size, *, outputs, dropout):\n        1 / 0\n\n"
        "    def forward(self, vector):\n        return vector\n"
    )
    result = subprocess.run(
        [Path(sys.executable).parent / "palbert", "train", "demo", "--set", "tasks.sst.head=failing_heads:Failing"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert result.returncode == 1
    assert result.stderr.endswith(
        "error: ZeroDivisionError: division by zero\n"
        "  This is a bug in failing_heads:Failing or in palbert. Re-run with --debug to see where.\n"
    )


@pytest.mark.parametrize("start", [["-m", "palbert"], python_command("from palbert.cli import main; main()")[1:]])
def test_no_file_of_the_current_folder_is_imported_before_code_of_it_was_allowed(
    start: list[str], tmp_path: Path
) -> None:
    installed = tmp_path / "stranger-1.0.dist-info"  # as if the folder were a place of installed packages
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[palbert.heads]\nstrange = stranger:Head\n")
    for name in ("stranger", "torch", "numpy", "rich", "pyarrow", "openpyxl", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} of the current folder was imported')")
    done = subprocess.run(
        [sys.executable, *start, "parts"], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "strange" not in done.stdout and "linear" in done.stdout
