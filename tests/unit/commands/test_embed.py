"""palbert embed: vectors of texts on stdout, those of files in files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import palbert

pytestmark = pytest.mark.usefixtures("on_cpu")

Cli = Callable[..., Any]


def test_vectors_of_texts_are_printed_as_json(trained: Path, cli: Cli) -> None:
    result = cli("embed", trained, "--text", "Grün 🎸", "--text", "dull", "--normalise", "--pooling", "cls")
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert [line["text"] for line in lines] == ["Grün 🎸", "dull"]
    expected = palbert.load(trained).embed(["Grün 🎸", "dull"], pooling="cls", normalise=True)
    np.testing.assert_allclose([line["vector"] for line in lines], expected, atol=1e-6)


def test_a_file_is_embedded_by_a_run_and_by_an_encoder(
    trained: Path, tiny_encoder: Path, tmp_path: Path, cli: Cli
) -> None:
    (tmp_path / "in.csv").write_text("review,stars\ndull,1\nquiet triumph,5\n")
    arrays = []
    for number, source in enumerate([trained, tiny_encoder]):
        output = tmp_path / f"{number}.npy"
        asked = ("embed", source, "--input", tmp_path / "in.csv", "--output", output, "--column", "review")
        assert cli(*asked).code == 0
        assert cli(*asked).code == 2 and cli(*asked, "--force").code == 0
        arrays.append(np.load(output))
    assert arrays[0].shape == arrays[1].shape == (2, 32) and not np.allclose(arrays[0], arrays[1])


@pytest.mark.parametrize("options", [[], ["--text", "a", "--input", "b", "--output", "c"], ["--input", "b"]])
def test_embed_takes_texts_or_a_file(options: list[str], trained: Path, cli: Cli) -> None:
    result = cli("embed", trained, *options)
    assert result.code == 2 and "embed takes either --text, or --input with --output." in result.err
