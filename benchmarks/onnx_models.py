"""The encoder and the mean of its states in onnxruntime, in fp32 and int8, as fast as its options allow."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import torch
import transformers
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers import optimizer
from tokenizers import Tokenizer

BATCH = 32
"""Texts that are padded together."""
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class OnnxWay(NamedTuple):
    """How onnxruntime is asked."""

    int8: bool
    fused: bool
    """Whether its optimizer for transformers has fused attention, norms and GELU into one operator each."""
    bound: bool = False
    """Whether inputs and outputs are bound to memory beforehand."""


ONNX_WAYS = {
    f"onnxruntime {'int8' if way.int8 else 'fp32'}{', fused' * way.fused}{', bound' * way.bound}": way
    for int8 in (False, True)
    for way in (OnnxWay(int8, fused=False), OnnxWay(int8, fused=True), OnnxWay(int8, fused=True, bound=True))
}


class MeanStates(torch.nn.Module):
    """transformers' encoder and the mean of a text's states."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.encoder = transformers.AutoModel.from_pretrained(
            folder, add_pooling_layer=False, attn_implementation="eager"
        ).eval()

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        """Return (texts, hidden)."""
        states = self.encoder(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state
        weights = mask[:, :, None].to(states.dtype)
        mean: torch.Tensor = (states * weights).sum(1) / weights.sum(1)
        return mean


def export_model(folder: Path, way: OnnxWay, path: Path) -> None:
    """Write the model that a way uses: exported, fused where asked for, then quantised where asked for."""
    model = MeanStates(folder)
    ids = torch.ones(2, 9, dtype=torch.int64)
    axes = {name: {0: "texts", 1: "tokens"} for name in INPUTS} | {"vectors": {0: "texts"}}
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # the exporter by tracing is deprecated; the other one needs onnxscript
        torch.onnx.export(
            model, (ids, ids, 0 * ids), path, dynamo=False, opset_version=17,
            input_names=list(INPUTS), output_names=["vectors"], dynamic_axes=axes,
        )  # fmt: skip
    if way.fused:
        heads, size = model.encoder.config.num_attention_heads, model.encoder.config.hidden_size
        fused = optimizer.optimize_model(str(path), model_type="bert", num_heads=heads, hidden_size=size, opt_level=0)
        fused.save_model_to_file(str(path))
    if way.int8:
        quantize_dynamic(
            path, path, weight_type=QuantType.QInt8, extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT}
        )


def with_onnxruntime(folder: Path, way: OnnxWay, *, longest: int) -> Callable[[list[str]], np.ndarray[Any, Any]]:
    """Return a loop over padded batches, sorted by length, with the tokenizers library alone in front of it.

    All graph optimisations are on, there is a thread per thread of torch, and its threads may spin.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "model.onnx"
        export_model(folder, way, path)
        session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(longest)
    tokenizer.enable_padding()
    wanted = [each.name for each in session.get_inputs()]
    binding = session.io_binding()

    def vectors_of(feed: dict[str, Any]) -> np.ndarray[Any, Any]:
        if not way.bound:
            found: np.ndarray[Any, Any] = session.run(None, feed)[0]
            return found
        for name, values in feed.items():
            binding.bind_cpu_input(name, values)
        binding.bind_output("vectors")
        session.run_with_iobinding(binding)
        return np.asarray(binding.copy_outputs_to_cpu()[0])

    def embed(texts: list[str]) -> np.ndarray[Any, Any]:
        order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
        pieces = []
        for start in range(0, len(texts), BATCH):
            chosen = [texts[row] for row in order[start : start + BATCH]]
            found = tokenizer.encode_batch_fast(chosen) if len(chosen) > 1 else [tokenizer.encode(chosen[0])]
            ids = np.array([each.ids for each in found], dtype=np.int64)
            mask = np.array([each.attention_mask for each in found], dtype=np.int64)
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            pieces.append(vectors_of({name: given[name] for name in wanted}))
        vectors = np.concatenate(pieces) if len(pieces) > 1 else pieces[0]
        if len(texts) == 1:
            return vectors
        back = np.empty_like(vectors)
        back[order] = vectors
        return back

    return embed
