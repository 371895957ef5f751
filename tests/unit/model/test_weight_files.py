"""Weight files: read from their own folder alone, as tensors alone, or refused."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from palbert.errors import EncoderError
from palbert.model.weight_files import read_tensors, weight_files

SHARD = "model-00001-of-00001.safetensors"


@pytest.fixture
def folder(tiny_encoder: Path, tmp_path: Path) -> Path:
    """Return an encoder whose weights have an index."""
    folder = Path(shutil.copytree(tiny_encoder, tmp_path / "encoder"))
    (folder / "model.safetensors").rename(folder / SHARD)
    names = load_file(folder / SHARD)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": dict.fromkeys(names, SHARD)}))
    return folder


def list_file(folder: Path, file: object) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": SHARD, "b": file}}))


@pytest.mark.parametrize(
    "file",
    ["../x.safetensors", "/etc/passwd", "a\0.safetensors", "..", ".", "", "pytorch_model.bin", ".hidden.safetensors",
     "x" * 300 + ".safetensors", "a/b.safetensors", "a\\b.safetensors", "x.safetensors\n", 7, None, ["x"], {}],
)  # fmt: skip
def test_an_index_lists_weight_files_of_its_folder_alone(file: object, folder: Path) -> None:
    list_file(folder, file)
    with pytest.raises(EncoderError, match=r"index\.json: lists .* not the name of a weight file next to it"):
        read_tensors(folder)


@pytest.mark.parametrize("content", ["[]", '{"weight_map": 3}', '{"weight_map": {}}', '{"weight_map": [1]}', "{", "\0"])
def test_a_damaged_index_is_refused(content: str, folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text(content)
    with pytest.raises(EncoderError, match=r"model\.safetensors\.index\.json: "):
        read_tensors(folder)


def test_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / SHARD).rename(tmp_path / "elsewhere.safetensors")
    (folder / SHARD).symlink_to(tmp_path / "elsewhere.safetensors")
    with pytest.raises(EncoderError, match=r"is a link to .*elsewhere\.safetensors, outside of its folder"):
        read_tensors(folder)


def test_links_of_the_hub_cache_are_followed(folder: Path, tmp_path: Path) -> None:
    repository = tmp_path / "models--owner--name"
    (repository / "blobs").mkdir(parents=True)
    snapshot = repository / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    for number, file in enumerate(folder.iterdir()):
        shutil.copyfile(file, repository / "blobs" / str(number))
        (snapshot / file.name).symlink_to(Path("..", "..", "blobs", str(number)))
    assert read_tensors(snapshot).keys() == read_tensors(folder).keys()
    assert weight_files(snapshot) == [snapshot / SHARD]


def test_a_link_of_the_folder_itself_is_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(folder)
    assert read_tensors(tmp_path / "linked").keys() == read_tensors(folder).keys()


def test_a_weight_in_two_files_is_refused(folder: Path) -> None:
    save_file({"pooler.dense.bias": torch.ones(32)}, folder / "b.safetensors")
    list_file(folder, "b.safetensors")
    with pytest.raises(EncoderError, match=r"'pooler\.dense\.bias' is in another file of the folder, too"):
        read_tensors(folder)


class Command:
    """An object whose pickle runs a shell command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (self.command,)


@pytest.mark.parametrize("legacy", [False, True])
def test_a_pickle_that_runs_a_command_is_refused_and_not_run(legacy: bool, tmp_path: Path) -> None:
    content = {"weight": Command(f"touch {tmp_path / 'ran'}")}
    torch.save(content, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=not legacy)
    with pytest.raises(EncoderError, match=r"pytorch_model\.bin: cannot be read as weights.*ask the author"):
        read_tensors(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(content))
    with pytest.raises(EncoderError, match=r"pytorch_model\.bin: cannot be read as weights"):
        read_tensors(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_tensors_that_have_fewer_numbers_than_they_say_are_refused(tmp_path: Path) -> None:
    for tensor in (torch.zeros(1).expand(10**9), torch.zeros(3, 3).to_sparse(), torch.zeros(2, device="meta")):
        torch.save({"weight": tensor}, tmp_path / "pytorch_model.bin")
        with pytest.raises(EncoderError, match=r"pytorch_model\.bin: cannot be read as weights"):
            read_tensors(tmp_path)


def header(content: object) -> bytes:
    text = json.dumps(content).encode()
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\0" * 8, b"\xff" * 16, (10**12).to_bytes(8, "little") + b"{}", header([]), header({"a": 1}),
        header({"a": {"dtype": "F32", "shape": [10**6, 10**6], "data_offsets": [0, 4 * 10**12]}}),
        header({"a": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 0]}}),
        header({"a": {"dtype": "X9", "shape": [1], "data_offsets": [0, 4]}}) + b"\0" * 4,
        header({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}) + b"\0" * 4,
        header({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}) + b"\0" * 12,
    ],
    ids=range(11),
)  # fmt: skip
def test_a_damaged_header_of_safetensors_is_refused_at_once(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(EncoderError, match=r"model\.safetensors: cannot be read as weights"):
        read_tensors(tmp_path)
