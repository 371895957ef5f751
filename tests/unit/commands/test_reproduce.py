"""palbert reproduce and results: options reach the functions, tables are printed, failures end with 1."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palbert.reproduction.reproduce import Reproduction

Cli = Callable[..., Any]


@pytest.fixture
def reproduced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Reproduction, dict[str, Any]]:
    """Replace the function behind the command; return what it will answer and what it was called with."""
    (tmp_path / "table.md").write_text("# My table\n", "utf-8")
    done = Reproduction(tables=[tmp_path / "table.md"])
    called: dict[str, Any] = {}

    def reproduce(tables: list[str], **settings: Any) -> Reproduction:
        called.update(tables=tables, **settings)
        return done

    monkeypatch.setattr("palbert.reproduction.reproduce.reproduce", reproduce)
    return done, called


def test_every_option_reaches_the_function(reproduced: tuple[Reproduction, dict[str, Any]], cli: Cli) -> None:
    options = ["--data", "course", "--encoder", "minilm", "--seeds", 3, "--jobs", 2, "--out", "here", "--smoke"]
    result = cli("reproduce", "a/b", "c:d", *options, "--keep-checkpoints", "--set", "run.device=cpu")
    assert result.code == 0 and "# My table" in result.out and "Table: " in result.out
    assert reproduced[1] == {
        "tables": ["a/b", "c:d"],
        "data": "course",
        "encoder": "minilm",
        "seeds": 3,
        "jobs": 2,
        "out": Path("here"),
        "smoke": True,
        "keep_checkpoints": True,
        "overrides": ["run.device=cpu"],
    }


def test_failures_are_listed_after_the_tables_and_end_with_1(
    reproduced: tuple[Reproduction, dict[str, Any]], cli: Cli
) -> None:
    reproduced[0].failures.update({"a/b:one, seed 0": "no such file", "a/b:two, seed 0": "out of memory"})
    result = cli("reproduce", "a/b")
    assert result.code == 1 and "# My table" in result.out
    assert "2 failed:\na/b:one, seed 0: no such file\na/b:two, seed 0: out of memory" in result.err


def test_without_a_table_the_known_ones_are_listed(
    reproduced: tuple[Reproduction, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    (tmp_path / "recipes/mine").mkdir(parents=True)
    (tmp_path / "recipes/mine/one.toml").write_text('title = "My table"\n[rows.a]\nlabel = "a"\n', "utf-8")
    monkeypatch.chdir(tmp_path)
    result = cli("reproduce")
    assert [line.rstrip().split(maxsplit=1) for line in result.out.splitlines()[1:]] == [["mine/one", "My table"]]
    assert reproduced[1] == {}


@pytest.mark.parametrize(("given", "folders"), [([], [Path("recipes/results")]), (["a", "b"], [Path("a"), Path("b")])])
def test_results_are_read_from_the_given_folders_or_those_kept(
    monkeypatch: pytest.MonkeyPatch, cli: Cli, given: list[str], folders: list[Path]
) -> None:
    called: list[Any] = []

    def results(found: list[Path], *, out: Path) -> Path:
        called.append(found)
        return out

    monkeypatch.setattr("palbert.reproduction.results_page.results", results)
    assert cli("results", *given, "--out", "page.md").out == "Page: page.md\n"
    assert called == [folders]
