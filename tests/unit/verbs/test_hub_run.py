"""Runs of the Hub: found by name after folders here, pinned, checked, without code or pickles, and used offline."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.hub import Hub, Repository

import palbert
from palbert.errors import CheckpointError, TrustError
from palbert.runtime.checksums import RECORD
from palbert.runtime.files import sha256
from palbert.verbs.hub_run import RUN_FILES, hub_id_of, local_copy, locate

pytestmark = [
    pytest.mark.usefixtures("on_cpu", "no_plots"),
    pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"),  # of huggingface_hub, as it calls httpx
]

Cli = Callable[..., Any]
NAME = "owner/tiny"


@pytest.fixture
def pushed(trained: Path, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Push the trained run, and continue in an empty folder."""
    palbert.push(trained, NAME, yes=True)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return hub.repositories[NAME]


def test_only_the_files_of_a_run_are_fetched(pushed: Repository, hub: Hub) -> None:
    others = ["pytorch_model.bin", "evil.pkl", "modeling.py", "checkpoints/last/optimizer.safetensors"]
    pushed.commit({**hub.files(NAME), **dict.fromkeys(others, b"not needed")})
    folder = locate(NAME)
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} <= set(RUN_FILES)
    assert set(hub.fetched) <= set(RUN_FILES)


def test_a_local_folder_of_the_same_name_wins(trained: Path, pushed: Repository, hub: Hub) -> None:
    Path("owner").mkdir()
    os.symlink(trained, NAME)
    assert locate(NAME) == Path(NAME)
    assert palbert.load(NAME).tasks
    assert not hub.fetched
    assert locate(f"hf:{NAME}") != Path(NAME)


@pytest.mark.parametrize(
    "name",
    ["demo", "runs/demo", "./owner/name", "../owner/name", "/owner/name", "a/b/c", "minilm", "~/x", "present/typo"],
)
def test_what_is_meant_as_a_folder_is_not_looked_up_on_the_hub(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("present").mkdir()
    assert hub_id_of(name) is None


def test_a_revision_is_pinned(trained: Path, pushed: Repository, hub: Hub) -> None:
    first = pushed.head
    pushed.commit({".gitattributes": b""})
    answers = palbert.load(trained).predict("sst", ["Dull."])
    assert palbert.load(f"{NAME}@{first}").predict("sst", ["Dull."]) == answers
    with pytest.raises(CheckpointError, match="holds neither a run of palbert nor an encoder"):
        palbert.load(NAME)
    with pytest.raises(CheckpointError, match="it has no revision 'v9'"):
        palbert.load(f"{NAME}@v9")


def test_offline_the_cache_is_used(pushed: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    online = palbert.load(NAME).predict("sst", ["Dull."])
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert palbert.load(NAME).predict("sst", ["Dull."]) == online
    with pytest.raises(CheckpointError, match="Run 'owner/other' cannot be fetched: HF_HUB_OFFLINE is set"):
        palbert.load("owner/other")


def test_files_that_are_not_those_that_were_pushed_are_refused(pushed: Repository, hub: Hub) -> None:
    good = hub.files(NAME)
    weights = "checkpoints/best/model.safetensors"
    pushed.commit({**good, weights: good[weights][:-1] + b"?"})
    with pytest.raises(CheckpointError, match=r"damaged: expected the SHA-256.*Fetch it again"):
        palbert.load(NAME)
    pushed.commit({**good, "recipe.toml": good["recipe.toml"] + b"\n"})
    with pytest.raises(CheckpointError, match=r"recipe\.toml: damaged"):
        palbert.load(NAME)
    pushed.commit({name: content for name, content in good.items() if name != f"checkpoints/best/{RECORD}"})
    with pytest.raises(CheckpointError, match=r"does not list model\.safetensors"):
        palbert.load(NAME)


def test_code_of_strangers_runs_only_with_trust(pushed: Repository, hub: Hub) -> None:
    files = dict(hub.files(NAME))
    description = json.loads(files["checkpoints/best/palbert.json"])
    description["tasks"]["sst"]["head"] = {"name": "evil_module:Head"}
    files["checkpoints/best/palbert.json"] = json.dumps(description).encode()
    record = files[f"checkpoints/best/{RECORD}"].decode().splitlines()
    path = Path("palbert.json")
    path.write_bytes(files["checkpoints/best/palbert.json"])
    record = [f"{sha256(path)}  palbert.json" if line.endswith(" palbert.json") else line for line in record]
    files[f"checkpoints/best/{RECORD}"] = ("\n".join(record) + "\n").encode()
    pushed.commit(files)
    with pytest.raises(TrustError, match="evil_module:Head"):
        palbert.load(NAME)


def test_verbs_that_use_a_run_take_it_from_the_hub(trained: Path, pushed: Repository, cli: Cli) -> None:
    local = palbert.load(trained)
    vector = cli("embed", NAME, "--text", "Rain falls.")
    assert vector.code == 0, vector.err
    np.testing.assert_allclose(json.loads(vector.out)["vector"], local.embed(["Rain falls."])[0], atol=1e-6)
    explained = cli("explain", NAME, "--task", "sst", "--text", "Rain falls.", "--json")
    assert explained.code == 0, explained.err
    assert (
        cli("predict", NAME, "--text", "Dull.", "--task", "sst").out
        == cli("predict", trained, "--text", "Dull.", "--task", "sst").out
    )
    exported = cli("export", NAME, "--to", "transformers", "--out", "exported", "--no-check")
    assert exported.code == 0, exported.err
    np.testing.assert_allclose(palbert.load("exported").embed(["Rain."]), local.embed(["Rain."]), atol=1e-5)


def test_evaluating_a_run_of_the_hub_writes_into_a_copy_in_runs(pushed: Repository, cli: Cli) -> None:
    Path("mine.csv").write_text("sentence,sentiment\nDull.,negative\nGreat fun!,positive\nFine.,neutral\n")
    result = cli("evaluate", NAME, "--test", "sst=mine.csv")
    assert result.code == 0, result.err
    [copy] = Path("runs").iterdir()
    assert copy.name == f"owner--tiny-{pushed.head[:8]}" and f"{NAME} is in {copy}" in result.err
    assert (copy / "evaluations" / "mine" / "report-test.json").is_file()
    assert local_copy(NAME) == copy  # it is not made again
    assert not [path for path in locate(NAME).rglob("*") if "evaluations" in path.parts]
    own = cli("evaluate", NAME)  # the samples are there as well, as every palbert has them
    assert own.code == 0, own.err


def test_an_encoder_of_the_hub_is_loaded_as_one(hub: Hub, tiny_encoder: Path, tmp_path: Path) -> None:
    hub.repositories["owner/encoder"] = Repository()
    hub.repositories["owner/encoder"].commit({file.name: file.read_bytes() for file in tiny_encoder.iterdir()})
    there = palbert.load("owner/encoder")
    assert not there.tasks
    np.testing.assert_allclose(there.embed(["rain"]), palbert.load(tiny_encoder).embed(["rain"]), atol=1e-6)
    with pytest.raises(CheckpointError, match="is an encoder"):
        local_copy("owner/encoder")


def test_a_name_that_is_nowhere_says_so(hub: Hub, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = cli("predict", "owner/none", "--text", "x")
    assert result.code == 2
    assert "Run 'owner/none' cannot be fetched: the Hub has no such model, or it is private" in result.err
    wrong = cli("predict", "hf:none", "--text", "x")
    assert wrong.code == 2 and "expected hf:owner/name" in wrong.err
