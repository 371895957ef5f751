"""The commands on all pages: every one can be parsed, and those of the quickstart run."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
import typer
from tests.served import ask, curl_commands, serving

from palbert.cli import app
from palbert.commands.serve import RUN

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")] + sorted((ROOT / "docs").rglob("*.md"))
QUICKSTART = (ROOT / "docs" / "quickstart.md").read_text("utf-8")


def commands(page: str) -> list[list[str]]:
    """Return the arguments of every `palbert …` in a page's shell blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]  # a \ continues a line
    words = [shlex.split(line, comments=True) for line in lines]
    return [line[line.index("palbert") + 1 :] for line in words if "palbert" in line]


COMMANDS = sorted({tuple(command) for page in PAGES for command in commands(page.read_text("utf-8"))})


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_command_on_a_page_can_be_parsed(arguments: tuple[str, ...]) -> None:
    group = typer.main.get_command(app)
    rest = list(arguments)
    context = group.make_context("palbert", rest[:1], resilient_parsing=True)
    verb = group.get_command(context, rest.pop(0))  # type: ignore[attr-defined]
    while hasattr(verb, "commands"):
        verb = verb.commands[rest.pop(0) if rest[0] in verb.commands else RUN]
    assert verb is not None
    verb.make_context(verb.name, rest)  # raises UsageError for an option or a value that does not exist


def ask_the_service(arguments: list[str], folder: Path) -> None:
    """Start the quickstart's service, and send the quickstart's requests."""
    requests = curl_commands(QUICKSTART)
    assert len(requests) == 4
    with serving(arguments, folder) as address:
        answers = [ask(request, address) for request in requests]
    assert [answer.status_code for answer in answers] == [200] * 4
    single, pair = (answer.json()["results"] for answer in answers[:2])
    assert [list(result) for result in (*single, *pair)] == [["urgency"], ["same"]]


def test_the_quickstart_runs_as_written(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    files = dict(re.findall(r"`([\w-]+\.(?:csv|toml))`\n\n```\w+\n(.*?)```", QUICKSTART, re.DOTALL))
    assert sorted(files) == ["same.csv", "support.toml", "tickets.csv"]
    files["support.toml"] = files["support.toml"].replace('"minilm"', f'"{tiny_encoder}"')
    files["inbox.csv"] = "message\nAll is well.\n"
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    quick = ["--set", "training.epochs=2", "--set", f"encoder={tiny_encoder}"]
    for arguments in commands(QUICKSTART):
        if arguments[0] == "serve":
            ask_the_service(arguments[1:], tmp_path)
            continue
        app([*arguments, *(quick if arguments[0] == "train" else [])], standalone_mode=False)
    assert (tmp_path / "runs" / "support" / "report.html").is_file()
    assert (tmp_path / "runs" / "other" / "report.html").is_file()
    assert len((tmp_path / "sorted.csv").read_text("utf-8").splitlines()) == 2
    [snippet] = re.findall(r"```python\n(.*?)```", QUICKSTART, re.DOTALL)
    capsys.readouterr()
    exec(snippet, {})
    assert len(capsys.readouterr().out.splitlines()) == 2
