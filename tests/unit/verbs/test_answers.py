"""Answers that are not numbers are errors that name task and row, in every command."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import palbert
from palbert.errors import AnswerError
from palbert.model import heads
from palbert.verbs.embed_file import embed_file

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]
TEXTS = ["dull", "a quiet little triumph of a film", "fine"]


@pytest.fixture(params=["nan", "inf"])
def broken_head(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the head of sst, which no other task has, give no numbers for the first row of a batch."""
    forward = heads.MLP.forward

    def broken(self: Any, *inputs: Any) -> torch.Tensor:
        outputs = forward(self, *inputs).clone()
        outputs[0, -1] = float(request.param)
        return outputs

    monkeypatch.setattr(heads.MLP, "forward", broken)


@pytest.mark.usefixtures("broken_head")
def test_predict_names_task_and_row(trained: Path) -> None:
    model = palbert.load(trained)
    with pytest.raises(AnswerError, match=r"^tasks.sst: the output of row 2 is not a number. .*--precision fp32"):
        model.predict("sst", TEXTS)  # the longest row comes first
    with pytest.raises(AnswerError, match=r"^tasks.sst: the output of row 1 is not a number. .*--precision fp32"):
        model.predict_all(TEXTS, tasks=["sst"])  # few rows stay in their order
    assert model.predict("quora", [("a", "b")])


@pytest.mark.usefixtures("broken_head")
def test_predicting_a_file_names_its_row_and_writes_nothing(
    trained: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palbert.verbs.predict_file.CHUNK", 3)
    whole = heads.MLP.forward
    calls = []

    def broken_later(self: Any, *inputs: Any) -> torch.Tensor:
        calls.append(self)
        outputs = whole(self, *inputs)
        return outputs if len(calls) > 1 else outputs.nan_to_num(0, 0, 0)

    monkeypatch.setattr(heads.MLP, "forward", broken_later)
    (tmp_path / "in.csv").write_text("sentence\n" + "".join(f"{text}\n" for text in TEXTS * 2))
    result = cli("predict", trained, "-t", "sst", "--input", tmp_path / "in.csv", "--output", tmp_path / "out.csv")
    assert result.code == 1 and "Traceback" not in result.err
    assert f"{tmp_path / 'in.csv'}: tasks.sst: the output of row 5 is not a number" in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


@pytest.mark.usefixtures("broken_head")
def test_evaluate_names_task_and_row_and_keeps_the_report(
    run_copy: Path, cli: Cli, snapshot: Callable[[Path], dict[str, bytes]]
) -> None:
    before = snapshot(run_copy)
    result = cli("evaluate", run_copy)
    assert result.code == 1 and "tasks.sst: the output of row " in result.err
    assert snapshot(run_copy) == before


def test_embed_names_the_row(trained: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    model = palbert.load(trained)
    fine = model.embed(TEXTS)
    row = model.tokenizer(["quiet"]).values[0]
    words = model.inference.model.encoder.embeddings.word.weight
    with torch.no_grad():
        words[int(row)] = float("nan")
    with pytest.raises(AnswerError, match=r"^The vector of row 2 is not a number"):
        model.embed(TEXTS)
    assert (model.embed(["dull"]) == fine[0]).all()


def test_the_error_passes_between_processes() -> None:
    error = pickle.loads(pickle.dumps(AnswerError("The vector", 3, "Do this.").after(4096, Path("in.csv"))))
    assert str(error) == "in.csv: The vector of row 4,100 is not a number. Do this."
    assert (error.exit_code, error.row) == (1, 4099)


def test_embedding_a_file_names_its_row(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palbert.verbs.embed_file.CHUNK", 2)
    model = palbert.load(trained)
    with torch.no_grad():
        model.inference.model.encoder.embeddings.word.weight[int(model.tokenizer(["fine"]).values[0])] = float("inf")
    source = tmp_path / "in.csv"
    source.write_text("sentence\n" + "".join(f"{text}\n" for text in TEXTS))
    with pytest.raises(AnswerError, match=rf"{source}: .* of row 3 is not a number"):
        embed_file(model, source, tmp_path / "out.npy")
    assert not (tmp_path / "out.npy").exists()
