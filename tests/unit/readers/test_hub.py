"""Hub data sets: a split gives its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from palbert.errors import DataError
from palbert.readers import resolve_files

Read = Callable[..., dict[str, list[str | None]]]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an offline Hub cache with one data set, without a network."""
    constants = pytest.importorskip("huggingface_hub.constants")
    cache = tmp_path / "hub"
    repository = cache / "datasets--owner--name"
    snapshot = repository / "snapshots" / COMMIT
    contents = {
        "data/train-00000-of-00002.csv": "a,b\n1,x\n",
        "data/train-00001-of-00002.csv": "a,b\n2,y\n",
        "data/test-00000-of-00001.csv": "a,b\n3,z\n",
        "small/train.jsonl": '{"a": 4, "b": "w"}\n',
        "small/validation.jsonl": '{"a": 5, "b": "v"}\n',
        "README.md": "train",
    }
    for name, content in contents.items():
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / name).write_text(content)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return snapshot


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("hf:owner/name/data:train", {"a": ["1", "2"], "b": ["x", "y"]}),
        ("hf:owner/name/data:test", {"a": ["3"], "b": ["z"]}),
        ("hf:owner/name/small:train", {"a": ["4"], "b": ["w"]}),
        ("hf:owner/name/small:validation", {"a": ["5"], "b": ["v"]}),
        ("hf:owner/name:test", {"a": ["3"], "b": ["z"]}),
        ("hf:owner/name:validation", {"a": ["5"], "b": ["v"]}),
    ],
)
def test_a_split_of_a_hub_data_set_gives_its_files(
    read: Read, hub: Path, path: str, expected: dict[str, list[str]]
) -> None:
    assert read(path) == expected


def test_only_files_of_the_split_are_taken(hub: Path) -> None:
    found = [file.relative_to(hub).as_posix() for file in resolve_files("hf:owner/name/data:train")]
    assert found == ["data/train-00000-of-00002.csv", "data/train-00001-of-00002.csv"]


def test_a_missing_data_set_is_refused_in_one_line(hub: Path) -> None:
    with pytest.raises(DataError) as caught:
        resolve_files("hf:owner/other:train")
    assert str(caught.value).startswith("hf:owner/other:train: cannot be fetched from the Hub: ")
    assert len(str(caught.value).splitlines()) == 1


def test_a_failure_without_a_message_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **settings: object) -> str:
        raise ConnectionResetError

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(DataError, match="cannot be fetched from the Hub: ConnectionResetError"):
        resolve_files("hf:owner/name:train")


def test_a_missing_split_is_refused_with_the_existing_ones(hub: Path) -> None:
    with pytest.raises(DataError, match=r"split 'dev'; found .*README\.md"):
        resolve_files("hf:owner/name:dev")


@pytest.mark.parametrize("path", ["hf:name:train", "hf:owner/name", "hf:owner/name:", "hf:/name:train", "hf::train"])
def test_an_incomplete_hub_path_is_refused(path: str) -> None:
    with pytest.raises(DataError, match="expected hf:owner/name:split"):
        resolve_files(path)


def test_a_split_in_several_configurations_is_refused_with_their_names(hub: Path) -> None:
    with pytest.raises(DataError, match=r"several configurations: data, small\. Name one: hf:owner/name/data:train"):
        resolve_files("hf:owner/name:train")
