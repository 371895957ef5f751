"""Graphs: recorded once, they give palbert's outputs for any number of texts of any length."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.model.test_padded_model import model_of

from palbert.errors import EncoderError, MissingExtraError
from palbert.inference.onnx_graph import input_names, output_name, record_graph, write_graph
from palbert.model.heads import Head
from palbert.model.padded_model import PaddedModel

onnxruntime = pytest.importorskip("onnxruntime")
SEQUENCES = {"sst": 1, "quora": 1, "sts": 2}


def inputs_of(texts: int, length: int) -> dict[str, np.ndarray[Any, Any]]:
    """Return random token ids, a mask that leaves every text at least one token, and types."""
    random = np.random.default_rng(texts * 1000 + length)
    lengths = random.integers(1, length + 1, (texts, 1))
    return {
        "input_ids": random.integers(5, 100, (texts, length)),
        "attention_mask": (np.arange(length) < lengths).astype(np.int64),
        "token_type_ids": random.integers(0, 2, (texts, length)),
    }


def test_one_graph_has_the_outputs_of_all_tasks_for_any_batch(tiny_encoder: Path, tmp_path: Path) -> None:
    model = model_of(tiny_encoder, adapters={"name": "pal", "size": 12, "heads": 3, "tasks": ["sts"]})
    graph = record_graph(model, SEQUENCES)
    sizes = {each.name: [size.dim_param for size in each.type.tensor_type.shape.dim] for each in graph.graph.input}
    assert sizes == {name: ["texts", "length"] for name in input_names(model)}
    assert [each.name for each in graph.graph.output] == [output_name(task) for task in SEQUENCES]
    table = list(model.encoder.embeddings.word.weight.shape)
    assert [list(each.dims) for each in graph.graph.initializer].count(
        table
    ) == 1  # both passes share the encoder's weights
    write_graph(graph, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for texts, length in [(1, 1), (2, 1), (1, 128), (7, 5), (4, 9)]:
        inputs = inputs_of(texts, length)
        with torch.inference_mode():
            expected = PaddedModel(model, SEQUENCES)(*map(torch.from_numpy, inputs.values()))
        found = session.run(None, inputs)
        assert [each.shape for each in found] == [(texts, 5), (texts, 1), (texts // 2, 1)]
        for mine, theirs in zip(expected, found, strict=True):
            np.testing.assert_allclose(theirs, mine.numpy(), atol=1e-4)


def test_eight_bit_graphs_are_close_and_small_and_leave_the_model_as_it_was(
    tiny_modernbert: Path, tmp_path: Path
) -> None:
    model = model_of(tiny_modernbert)
    assert input_names(model) == ("input_ids", "attention_mask")
    inputs = {name: values for name, values in inputs_of(6, 30).items() if name != "token_type_ids"}
    with torch.inference_mode():
        before = PaddedModel(model, SEQUENCES)(*map(torch.from_numpy, inputs.values()))
        graph = record_graph(model, SEQUENCES, int8=True)
        after = PaddedModel(model, SEQUENCES)(*map(torch.from_numpy, inputs.values()))
    products = [node for node in graph.graph.node if node.op_type == "MatMulInteger"]
    assert len(products) == 4 * model.encoder.config.layers
    write_graph(graph, tmp_path / "model.onnx")
    found = onnxruntime.InferenceSession(tmp_path / "model.onnx").run(None, inputs)
    for mine, same, theirs in zip(before, after, found, strict=True):
        assert torch.equal(mine, same)
        assert 0 < float(np.abs(theirs - mine.numpy()).max()) < 0.05


class Deciding(Head):
    """A head that looks at its numbers."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(hidden_size, 5)

    def forward(self, vector: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layer(vector)
        return found if float(vector.sum()) > 0 else -found


def test_a_head_that_graphs_cannot_record_is_refused_with_the_reason(tiny_encoder: Path) -> None:
    model = model_of(tiny_encoder)
    model.heads["sst"] = Deciding(32).eval()
    with pytest.raises(EncoderError, match=r"cannot be recorded as a graph: .*\n?.*no decisions by their values"):
        record_graph(model, {"sst": 1})


def test_a_missing_package_is_named_with_its_extra(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(MissingExtraError, match=r"Graphs need onnxscript\..*pip install 'palbert\[export\]'"):
        record_graph(model_of(tiny_encoder), {"sst": 1})
