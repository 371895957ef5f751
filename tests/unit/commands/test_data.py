"""palbert data: phrases of a treebank become rows, and files are neither replaced nor guessed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]

TREES = "(3 (2 Quite) (4 good))\n(1 (2 A) (1 (1 dull) (2 film)))\n"


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    """Write a treebank of two sentences."""
    (tmp_path / "train.txt").write_text(TREES, "utf-8")
    return tmp_path / "train.txt"


def test_every_phrase_becomes_a_row_with_its_grade(trees: Path, cli: Cli) -> None:
    out = trees.with_name("phrases.tsv")
    result = cli("data", "phrases", trees, "--out", out)
    assert result.code == 0 and f"8 phrases, 2 of them sentences: {out}" in result.out
    header, *rows = out.read_text("utf-8").splitlines()
    assert header == "phrase\tsentiment\twhole_sentence"
    assert {"Quite good\t3\t1", "good\t4\t0", "A dull film\t1\t1", "dull film\t1\t0"} <= set(rows) and len(rows) == 8


def test_a_file_is_replaced_only_with_force(trees: Path, cli: Cli) -> None:
    out = trees.with_name("phrases.tsv")
    out.write_text("mine", "utf-8")
    refused = cli("data", "phrases", trees, "--out", out)
    assert refused.code == 2 and "already exists" in refused.err and "--force" in refused.err
    assert out.read_text("utf-8") == "mine"
    assert cli("data", "phrases", trees, "--out", out, "--force").code == 0
    assert out.read_text("utf-8").startswith("phrase\t")


def test_a_file_that_appears_meanwhile_is_kept(trees: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    out = trees.with_name("phrases.tsv")
    monkeypatch.setattr("palbert.data.trees.phrases", lambda *_, **__: out.write_text("mine", "utf-8") and [])
    refused = cli("data", "phrases", trees, "--out", out)
    assert refused.code == 2 and f"{out}: already exists." in refused.err
    assert out.read_text("utf-8") == "mine"


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such file"), (b"(2 caf\xe9)\n", "not UTF-8"), (b"(2 fine)\n(2 (1 broken)\n", "line 2: a bracket")],
)
def test_a_file_that_is_not_a_treebank_is_refused(
    tmp_path: Path, cli: Cli, content: bytes | None, message: str
) -> None:
    source, out = tmp_path / "trees.txt", tmp_path / "out.tsv"
    if content is not None:
        source.write_bytes(content)
    result = cli("data", "phrases", source, "--out", out)
    assert result.code == 2 and str(source) in result.err and message in result.err
    assert not out.exists()
