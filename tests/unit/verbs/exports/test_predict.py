"""The script of a graph: it needs no palbert, and asks for no other passes than a task's own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")


def test_the_script_imports_onnxruntime_tokenizers_and_numpy_alone() -> None:
    from palbert.verbs.exports import predict

    tree = ast.parse(Path(predict.__file__).read_text("utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    own = {"__future__", "argparse", "json", "sys", "pathlib", "typing"}
    assert names - own == {"numpy", "onnxruntime", "tokenizers"}
