"""palbert export --to onnx: the graph, the script next to it, and what its check refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import palbert
from palbert.errors import DataError, EncoderError
from palbert.verbs.exports.predict import Model

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]
PAIRS = [("the plot is dull", "rain"), ("rain", "rain"), ("", "a soup"), ("never " * 200, "the plot " * 90)]
ROWS: dict[str, list[Any]] = {"sst": [first for first, _ in PAIRS], "quora": PAIRS, "sts": PAIRS}


@pytest.fixture(scope="module")
def graph(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export all tasks of the trained run."""
    out = tmp_path_factory.mktemp("graph") / "out"
    palbert.export(trained, to="onnx", out=out, check=False)
    return out


@pytest.fixture
def recorded(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the graph that is there already, and measure nothing for long."""
    monkeypatch.setattr(
        "palbert.verbs.exports.onnx_form.record_graph", lambda *_, **__: onnx.load(graph / "model.onnx")
    )
    monkeypatch.setattr("palbert.verbs.exports.onnx_form.SECONDS", 0.0)


def assert_same(mine: Any, theirs: dict[str, Any]) -> None:
    """Assert that a prediction and an answer of the script are equal."""
    if isinstance(mine.answer, float):
        assert theirs["answer"] == pytest.approx(mine.answer, abs=1e-4)
    else:
        assert theirs["answer"] == mine.answer
        assert theirs["probabilities"] == pytest.approx(mine.probabilities, abs=1e-5)


def test_the_script_answers_as_palbert_does_and_alone(graph: Path, trained: Path) -> None:
    own, model = palbert.load(trained), Model(graph)
    for task, rows in ROWS.items():
        for mine, theirs in zip(own.predict(task, rows), model.predict(task, rows), strict=True):
            assert_same(mine, theirs)
    script = [sys.executable, "-I", str(graph / "predict.py"), "--task", "sts", *PAIRS[0], *PAIRS[1]]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for mine, theirs in zip(own.predict("sts", PAIRS[:2]), lines, strict=True):
        assert_same(mine, theirs)
    odd = subprocess.run(script[:-1], capture_output=True, text=True, check=False)
    assert odd.returncode == 2 and "expected an even number of texts, found 3" in odd.stderr


@pytest.mark.usefixtures("recorded")
def test_the_check_compares_dev_rows_and_prints_what_it_found(trained: Path, tmp_path: Path, cli: Cli) -> None:
    result = cli("export", trained, "--to", "onnx", "--task", "quora", "--task", "sst", "--out", tmp_path / "out")
    assert result.code == 0, result.err
    written, outputs, answers, speed = result.out.splitlines()
    assert written == f"Written: {tmp_path / 'out'} (onnx, sst, quora; opset 20, fp32)"
    assert outputs.startswith("onnxruntime gives the same outputs as palbert, up to ")
    assert answers.startswith("Equal answers: sst ") and "quora " in answers and "sts" not in answers
    counts = [tuple(map(int, part.split()[-3::2])) for part in answers.rstrip(".").split(",")]
    assert all(equal == rows > 6 for equal, rows in counts)
    assert "ms (palbert: " in speed
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        "model.onnx", "palbert-export.json", "palbert.sha256", "predict.py", "tasks.json", "tokenizer.json",
    }  # fmt: skip
    assert list(json.loads((tmp_path / "out" / "tasks.json").read_text("utf-8"))["tasks"]) == ["sst", "quora"]


@pytest.mark.usefixtures("recorded")
def test_nothing_is_written_if_the_graph_gives_other_outputs(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Model.outputs
    monkeypatch.setattr(Model, "outputs", lambda *given: original(*given) + np.float32(0.01))
    with pytest.raises(EncoderError, match=r"onnxruntime gives other outputs than palbert: .* Nothing was written\."):
        palbert.export(trained, to="onnx", task="sst", out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_eight_bits_are_compared_but_not_refused(trained: Path, tmp_path: Path) -> None:
    done = palbert.export(trained, to="onnx", task="sst", out=tmp_path / "out", precision="int8")
    assert done.difference is not None and 1e-4 < done.difference < 1
    assert done.lines[0].startswith("In 8 bits, outputs differ from palbert's by up to ")
    assert "opset 20, int8" in repr(done) and "<table>" in done._repr_html_()


def test_an_encoder_without_tasks_has_no_graph(tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"an encoder without tasks.*Give a run"):
        palbert.export(tiny_encoder, to="onnx", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
