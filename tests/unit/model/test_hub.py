"""Encoders of the Hub: fetched from a local server that answers as the Hub does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hub import Hub, environment, running

PROGRAM = """
import json, sys
from palbert.errors import EncoderError
from palbert.model.pretrained import load_encoder, resolve_encoder

found = {}
for name in sys.argv[1:]:
    try:
        folder = resolve_encoder(name)
        load_encoder(folder)
        found[name] = sorted(file.name for file in folder.iterdir())
    except EncoderError as error:
        found[name] = str(error)
print(json.dumps(found))
"""


@pytest.fixture
def hub(tiny_encoder: Path) -> Iterator[Hub]:
    """Start a server of the tiny encoder with files that nobody needs."""
    files = {file.name: file.read_bytes() for file in tiny_encoder.iterdir()}
    unneeded = ["modeling.py", "pytorch_model.bin", "README.md", "onnx/model.onnx", "training_args.bin", "evil.pkl"]
    with running(Hub({"owner/tiny": {**files, **dict.fromkeys(unneeded, b"not needed")}})) as hub:
        yield hub


def resolve(hub: Hub, cache: Path, *names: str) -> dict[str, Any]:
    """Resolve encoders in a process of its own, since the address of the Hub is read on import."""
    command = [sys.executable, "-c", PROGRAM, *names]
    run = subprocess.run(command, env=environment(hub, cache), capture_output=True, text=True, check=True, timeout=300)
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def test_only_needed_files_are_fetched_and_errors_say_what_to_do(hub: Hub, tmp_path: Path) -> None:
    pinned, absent = f"owner/tiny@{hub.repositories['owner/tiny'].head}", "owner/tiny@v9"
    found = resolve(hub, tmp_path, "owner/tiny", pinned, absent, "owner/none", "owner/secret")
    needed = ["config.json", "model.safetensors", "tokenizer.json"]
    assert found["owner/tiny"] == needed
    assert found[pinned] == needed
    assert set(hub.fetched) == set(needed)
    assert "it has no revision 'v9'" in found[absent] and "A revision is a branch, a tag or a commit." in found[absent]
    assert "the Hub has no such model, or it is private" in found["owner/none"]
    assert "the Hub refuses access to it" in found["owner/secret"]
    assert all("hf auth login" in found[name] for name in ("owner/none", "owner/secret"))
