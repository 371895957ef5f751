"""palbert embed --input --output: every row has a vector, in order, complete or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import palbert
from palbert.errors import DataError, EncoderError, RunFolderError
from palbert.verbs import embed_file as module
from palbert.verbs.embed_file import embed_file, load_embedder

pytestmark = pytest.mark.usefixtures("on_cpu")

TEXTS = ["A quiet little triumph.", "", "Two lines\nof text", "dull " * 9, *(f"number {row} rain" for row in range(9))]


@pytest.fixture(scope="module")
def model(on_cpu: None, trained: Path) -> palbert.Predictor:
    return palbert.load(trained)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"key": row, "sentence": text}) + "\n" for row, text in enumerate(TEXTS)))
    return path


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 4)


def test_an_array_holds_the_vectors_in_order_and_can_be_mapped(
    model: palbert.Predictor, source: Path, tmp_path: Path
) -> None:
    assert embed_file(model, source, tmp_path / "out.npy") == len(TEXTS)
    found = np.load(tmp_path / "out.npy", mmap_mode="r")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, model.embed(TEXTS), atol=1e-6)


def test_a_parquet_file_has_the_columns_of_the_input_and_the_vectors(
    model: palbert.Predictor, source: Path, tmp_path: Path
) -> None:
    import pyarrow.parquet

    embed_file(model, source, tmp_path / "out.parquet", normalise=True)
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pydict()
    assert list(table) == ["key", "sentence", "vector"]
    assert table["sentence"] == TEXTS and table["key"][3] == "3"
    np.testing.assert_allclose(np.array(table["vector"]), model.embed(TEXTS, normalise=True), atol=1e-6)


def test_a_file_without_rows_gives_an_empty_array(model: palbert.Predictor, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("sentence\n")
    assert embed_file(model, tmp_path / "in.csv", tmp_path / "out.npy") == 0
    assert np.load(tmp_path / "out.npy").shape == (0, 32)


def test_the_column_is_the_runs_or_the_only_one_or_text(
    model: palbert.Predictor, tiny_encoder: Path, tmp_path: Path
) -> None:
    encoder = palbert.load(tiny_encoder)
    (tmp_path / "only.csv").write_text("remark\na guitar\n")
    (tmp_path / "text.csv").write_text("key,text\n1,a guitar\n")
    for name in ("only", "text"):
        embed_file(encoder, tmp_path / f"{name}.csv", tmp_path / f"{name}.npy")
        np.testing.assert_allclose(np.load(tmp_path / f"{name}.npy"), encoder.embed(["a guitar"]), atol=1e-6)
    (tmp_path / "other.csv").write_text("key,remark\n1,a guitar\n")
    with pytest.raises(DataError, match=r"which column is to be embedded\? Name it with --column. There are: key, r"):
        embed_file(model, tmp_path / "other.csv", tmp_path / "other.npy")
    with pytest.raises(DataError, match="no column 'remrak'"):
        embed_file(model, tmp_path / "other.csv", tmp_path / "other.npy", column="remrak")


def test_nothing_is_written_unless_all_is_well(model: palbert.Predictor, source: Path, tmp_path: Path) -> None:
    (tmp_path / "there.npy").write_bytes(b"mine")
    with pytest.raises(RunFolderError, match="already exists"):
        embed_file(model, source, tmp_path / "there.npy")
    with pytest.raises(DataError, match=r"unknown kind of file. Known: .npy, .parquet"):
        embed_file(model, source, tmp_path / "out.csv")
    with pytest.raises(DataError, match="Unknown task"):
        embed_file(model, source, tmp_path / "out.npy", column="sentence", task="stss")
    source.write_text('{"vector": 1, "sentence": "a"}\n')
    with pytest.raises(DataError, match="column 'vector' of the input would clash"):
        embed_file(model, source, tmp_path / "out.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "there.npy"]
    embed_file(model, source, tmp_path / "there.npy", force=True)
    assert np.load(tmp_path / "there.npy").shape == (1, 32)


def test_an_output_that_appears_meanwhile_is_kept(
    model: palbert.Predictor, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out.npy"
    monkeypatch.setattr(module, "count_rows", lambda *_, **__: output.write_text("of the other one") and 1)
    with pytest.raises(RunFolderError, match="already exists"):
        embed_file(model, source, output)
    assert output.read_text() == "of the other one" and sorted(tmp_path.iterdir()) == [source, output]


def test_a_name_that_is_not_a_folder_is_looked_up_as_an_encoder(trained: Path, tmp_path: Path) -> None:
    assert list(load_embedder(str(trained)).tasks) == ["sst", "quora", "sts"]
    with pytest.raises(EncoderError, match="no such folder"):
        load_embedder(str(tmp_path / "nowhere"))
