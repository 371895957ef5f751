"""Explaining files: a line of JSON per row, equal to explaining the rows by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.errors import DataError, RunFolderError
from palbert.verbs.explain_file import explain_file, explained_rows

pytestmark = pytest.mark.usefixtures("on_cpu")


@pytest.fixture(scope="module")
def model(on_cpu: None, trained: Path) -> palbert.Predictor:
    return palbert.load(trained)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text("review,stars\ndull,1\nquiet triumph,5\n,2\n", "utf-8")
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_each_row_has_a_line(model: palbert.Predictor, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palbert.verbs.explain_file.CHUNK", 2)
    output = source.with_name("out.jsonl")
    rows = explain_file(
        model, "sst", source, output, columns=["review"], similar=2, method="occlusion", target="neutral"
    )
    found = lines(output)
    assert rows == 3 and [line["text"] for line in found] == ["dull", "quiet triumph", ""]
    assert {line["target"] for line in found} == {"neutral"} and {line["method"] for line in found} == {"occlusion"}
    [expected] = model.explain("sst", ["quiet triumph"], method="occlusion", target="neutral")
    assert found[1]["words"][0]["score"] == pytest.approx(expected.words[0].score, abs=1e-5)
    assert [len(line["similar"]) for line in found] == [2, 2, 2]


def test_pairs_are_read_from_two_columns(model: palbert.Predictor, tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text("one\ttwo\na man\ta guitar\n", "utf-8")
    explain_file(model, "sts", tmp_path / "in.tsv", tmp_path / "o.jsonl", columns=["one", "two"], interactions=True)
    [line] = lines(tmp_path / "o.jsonl")
    assert line["text"] == ["a man", "a guitar"] and {word["column"] for word in line["words"]} == {0, 1}
    assert "interactions" in line and "similar" not in line


def test_an_output_is_kept_unless_forced_and_no_half_one_is_left(model: palbert.Predictor, source: Path) -> None:
    output = source.with_name("out.jsonl")
    output.write_text("mine")
    with pytest.raises(RunFolderError, match="already exists"):
        explain_file(model, "sst", source, output, columns=["review"])
    with pytest.raises(DataError, match="Unknown method"):
        explain_file(model, "sst", source, output, columns=["review"], force=True, method="lime")
    assert output.read_text() == "mine"
    assert explain_file(model, "sst", source, output, columns=["review"], force=True, method="occlusion") == 3


def test_an_output_that_appears_meanwhile_is_kept(
    model: palbert.Predictor, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = source.with_name("out.jsonl")
    monkeypatch.setattr(
        "palbert.verbs.explain_file.count_rows", lambda *_, **__: output.write_text("of the other one") and 3
    )
    with pytest.raises(RunFolderError, match="already exists"):
        explain_file(model, "sst", source, output, columns=["review"], method="gradient-input")
    assert output.read_text() == "of the other one" and sorted(source.parent.iterdir()) == [source, output]


def test_only_json_lines_are_written(model: palbert.Predictor, source: Path) -> None:
    with pytest.raises(DataError, match=r"explanations are written as JSON lines"):
        explain_file(model, "sst", source, source.with_name("out.csv"), columns=["review"])


def test_rows_can_be_written_as_json(model: palbert.Predictor) -> None:
    [row] = explained_rows(model, "sst", ["dull"], method="gradient-input")
    assert json.loads(json.dumps(row))["text"] == "dull"
