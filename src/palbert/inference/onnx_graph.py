"""ONNX graphs: the outputs of tasks as one graph, which onnxruntime and other engines run without palbert."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from palbert.errors import EncoderError, MissingExtraError, PalbertError, first_line
from palbert.model.multitask import MultiTaskModel
from palbert.model.padded_model import PaddedModel
from palbert.model.row_scaled import row_scaled

OPSET = 20
"""The version of ONNX's operators: the first one with GELU."""
IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
"""The inputs, (texts, length) each, int64. Encoders with fewer than two token types have no `TYPES`."""
EXAMPLE = (4, 9)
"""The texts and the length that a graph is recorded with; it runs with any other ones."""
LARGEST = 1 << 31
"""Bytes of a file of protobuf; larger graphs have their weights in a file of their own."""
NOISY = ("torch.onnx", "onnxscript", "onnx_ir", "torch.export")
"""Loggers that tell what the user cannot change."""


def output_name(task: str) -> str:
    """Return the name of a task's output in a graph."""
    return f"output_{task}"


def input_names(model: MultiTaskModel) -> tuple[str, ...]:
    """Return the inputs of a model's graph, in order."""
    return (IDS, MASK, TYPES) if model.encoder.config.type_vocabulary_size > 1 else (IDS, MASK)


def record_graph(model: MultiTaskModel, sequences: Mapping[str, int], *, int8: bool = False) -> Any:
    """Return the graph of some tasks' outputs, an `onnx.ModelProto`.

    It has one output per task, `output_name(task)`, (texts, outputs) in float32; a siamese task takes two texts per
    output, number i and number i + texts / 2. Tasks with the same adapter, or none, share a pass of the encoder.

    Args:
        model: The model, in float32 on the CPU, before it is prepared for inference.
        sequences: The tasks, and how many sequences an example of each takes: 2 for siamese pairs, else 1.
        int8: Store the weights of linear layers in 8 bits; their inputs are rounded when the graph runs.

    Raises:
        PalbertError: A part of the model has no padded form, or does what graphs cannot.
    """
    _check_packages(int8=int8)
    padded = PaddedModel(model, sequences).eval()
    inputs = input_names(model)
    # Of different tensors: the exporter takes one tensor that is given twice for one input.
    example = tuple(torch.ones(EXAMPLE, dtype=torch.int64) for _ in inputs)
    axes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    with _quiet(), torch.no_grad(), row_scaled(model.encoder) if int8 else contextlib.nullcontext():
        try:
            program = torch.onnx.export(
                padded,
                example,
                dynamo=True,
                opset_version=OPSET,
                input_names=inputs,
                output_names=[output_name(task) for task in sequences],
                dynamic_shapes=(axes,) * len(inputs),
                verbose=False,
            )
        except PalbertError:
            raise
        except Exception as error:  # whatever a head or an adapter from outside palbert leads to
            raise EncoderError(
                f"This model cannot be recorded as a graph: {_cause(error)}",
                hint="Heads, adapters and poolings of your own may only compute with tensors: no decisions by their "
                "values or sizes.",
            ) from error
        assert program is not None
        graph = program.model_proto
    _name_sizes(graph, sequences)
    return _rounded(graph) if int8 else graph


def write_graph(graph: Any, path: Path) -> None:
    """Write a graph; weights of more than 2 GB go into a file next to it."""
    import onnx

    large = graph.ByteSize() >= LARGEST
    onnx.save(graph, str(path), save_as_external_data=large, location=f"{path.name}.data" if large else None)


def _check_packages(*, int8: bool) -> None:
    """Raise MissingExtraError if a package of the extra is missing."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401

        if int8:
            import onnxruntime  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtraError("Graphs need", package=str(error.name), extra="export") from error


def _name_sizes(graph: Any, sequences: Mapping[str, int]) -> None:
    """Call the sizes that differ from call to call by their names; drop the shapes in between, which nobody needs."""
    del graph.graph.value_info[:]
    for each in graph.graph.input:
        for size, name in zip(each.type.tensor_type.shape.dim, ("texts", "length"), strict=True):
            size.dim_param = name
    for each, count in zip(graph.graph.output, sequences.values(), strict=True):
        each.type.tensor_type.shape.dim[0].dim_param = "texts" if count == 1 else "pairs"


def _rounded(graph: Any) -> Any:
    """Return a graph with the encoder's linear layers in 8 bits, and a scale for each output.

    The adapters and heads, whose weights are few, stay as they are, and so do the tables of words.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    _transpose_weights(graph)
    with tempfile.TemporaryDirectory() as place, _quiet():
        source, target = Path(place) / "model.onnx", Path(place) / "int8.onnx"
        write_graph(graph, source)
        quantize_dynamic(
            source,
            target,
            op_types_to_quantize=["MatMul"],
            nodes_to_quantize=[each.name for each in graph.graph.node if _has_block_weight(each)],
            per_channel=True,
            weight_type=QuantType.QInt8,
            use_external_data_format=graph.ByteSize() >= LARGEST,
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
        )
        return onnx.load(str(target))


def _transpose_weights(graph: Any) -> None:
    """Store the weights of linear layers as products read them.

    onnxruntime would do so while it rounds others, once for every layer that reads a weight: weights that two layers
    share, as the sides of a siamese pair do, would be transposed twice.
    """
    from onnx import numpy_helper

    weights, transposed = {each.name: each for each in graph.graph.initializer}, set()
    for node in graph.graph.node:
        [flag] = [each for each in node.attribute if each.name == "transB" and node.op_type == "Gemm"] or [None]
        if flag is None or not flag.i or node.input[1] not in weights:
            continue
        weight = weights[node.input[1]]
        if weight.name not in transposed:
            weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight).T.copy(), weight.name))
            transposed.add(weight.name)
        flag.i = 0


def _has_block_weight(node: Any) -> bool:
    """Whether a product has a weight of a block, which the exporter calls by its place in the module."""
    return bool(node.op_type == "MatMul" and node.input[1].startswith("model.encoder.layers."))


def _cause(error: BaseException) -> str:
    """Return the first line of what went wrong: the exporter's own errors only say that something did."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{first_line(error)}."


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide the exporter's messages about packages that palbert does not need, and its own deprecations."""
    former = {name: logging.getLogger(name).level for name in ("", *NOISY)}
    for name in former:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in former.items():
            logging.getLogger(name).setLevel(level)
