"""palbert push: exactly what a run needs, in one commit, nothing private, and back again with the same answers."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.hub import READER, Hub, environment

import palbert
from palbert.errors import CheckpointError, DataError, HubError, HubRefusalError, RunFolderError
from palbert.runtime.checksums import RECORD
from palbert.runtime.json_objects import parse_json
from palbert.runtime.run_folder import RunFolder

pytestmark = [
    pytest.mark.usefixtures("on_cpu", "no_plots"),
    pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"),  # of huggingface_hub, as it calls httpx
]

Cli = Callable[..., Any]
SENT = {
    "README.md", "recipe.toml", "report.json", "palbert.sha256", "checkpoints/best/model.safetensors",
    "checkpoints/best/palbert.json", "checkpoints/best/tokenizer.json", "checkpoints/best/palbert.sha256",
}  # fmt: skip
PAIRS = [("A man plays a guitar.", "Someone makes music."), ("Rain falls.", "The soup is hot.")]


def test_without_yes_nothing_is_sent_and_everything_is_shown(trained: Path, hub: Hub, cli: Cli) -> None:
    result = cli("push", trained, "owner/tiny", "--licence", "mit", "--private")
    assert result.code == 0, result.err
    assert hub.requests == []
    assert all(f"{name} " in result.out for name in SENT)
    assert "license: mit" in result.out and "# owner/tiny" in result.out
    assert "Nothing was sent. It would go to owner/tiny, private." in result.out
    assert result.out.endswith("To send it, add --yes.\n")


def test_a_pushed_run_gives_the_same_answers(trained: Path, hub: Hub, cli: Cli) -> None:
    result = cli("push", trained, "owner/tiny", "--yes")
    assert result.code == 0, result.err
    repository = hub.repositories["owner/tiny"]
    assert f"Sent to {hub.address}/owner/tiny/commit/{repository.head}" in result.out
    assert len(repository.commits) == 2  # the one that made it, and the run
    assert hub.files("owner/tiny").keys() - {".gitattributes"} == SENT
    here, there = palbert.load(trained), palbert.load("owner/tiny")
    assert there.predict("sts", PAIRS) == here.predict("sts", PAIRS)
    assert there.predict("sst", ["Dull."]) == here.predict("sst", ["Dull."])
    assert set(hub.fetched) == SENT - {"README.md"}


def test_a_pushed_run_is_used_by_another_process_by_its_name(trained: Path, hub: Hub, tmp_path: Path) -> None:
    own = environment(hub, tmp_path / "other-cache", HF_TOKEN="hf_writer")

    def run(*arguments: object) -> str:
        command = [sys.executable, "-m", "palbert", *map(str, arguments)]
        done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=300, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("push", trained, "owner/tiny", "--yes")
    found = parse_json(run("predict", "owner/tiny", "--task", "sts", "--pair", *PAIRS[0], "--json"))
    [here] = palbert.load(trained).predict("sts", PAIRS[:1])
    assert found["prediction"] == pytest.approx(here.answer, abs=1e-6)


def test_nothing_private_is_sent(run_copy: Path, hub: Hub, tiny_encoder: Path) -> None:
    (run_copy / "keys.json").write_text("secret")
    recipe = run_copy / "recipe.toml"
    text = recipe.read_text("utf-8")
    recipe.write_text(text.replace('wandb = ""', 'wandb = "hidden-project"'), "utf-8")
    palbert.push(run_copy, "owner/tiny", yes=True)
    files = hub.files("owner/tiny")
    assert not [name for name in files if "predictions" in name or "metrics" in name or "optimizer" in name]
    texts = [row.split("\t")[1] for row in _sample("sst-dev.tsv").splitlines()[1:]]
    for name, content in files.items():
        if name.endswith((".safetensors", "tokenizer.json")):
            continue
        assert str(tiny_encoder).encode() not in content and str(run_copy).encode() not in content, name
        assert b"hidden-project" not in content and b"/samples/" not in content, name
        assert not [row for row in texts if len(row) > 25 and row.encode() in content], name
    assert json.loads(files["report.json"])["encoder"] == tiny_encoder.name
    recipe_there = palbert.Run("owner/tiny").recipe
    assert recipe_there.encoder.name.endswith(tiny_encoder.name)
    assert recipe_there.provenance is not None and len(recipe_there.provenance.data_sha256) == 6


def test_the_origin_of_a_derived_run_is_sent_without_its_folders(trained: Path, hub: Hub, tmp_path: Path) -> None:
    less = palbert.remove_task(trained, "quora", out=tmp_path / "less")
    palbert.push(less, "owner/less", yes=True)
    sent = hub.files("owner/less")
    for name, content in sent.items():
        assert str(trained).encode() not in content and str(tmp_path).encode() not in content, name
    origin = json.loads(sent["checkpoints/best/palbert.json"])["origin"]
    own = json.loads((tmp_path / "less" / "checkpoints" / "best" / "palbert.json").read_text("utf-8"))["origin"]
    assert origin["checkpoints"] == [{**own["checkpoints"][0], "checkpoint": f"{trained.name}/best"}]
    assert palbert.load("owner/less").predict("sst", ["Dull."]) == palbert.load(less).predict("sst", ["Dull."])


def _sample(name: str) -> str:
    return (Path(palbert.__file__).parent / "data" / "samples" / name).read_text("utf-8")


def test_all_hashes_on_the_hub_are_those_of_its_files(trained: Path, hub: Hub) -> None:
    palbert.push(trained, "owner/tiny", yes=True)
    files = hub.files("owner/tiny")
    for place in ("", "checkpoints/best/"):
        lines = files[place + RECORD].decode().splitlines()
        assert lines
        for line in lines:
            found, name = line.split("  ")
            assert hashlib.sha256(files[place + name]).hexdigest() == found, name


def test_another_checkpoint_is_pushed_with_its_own_scores(run_copy: Path, hub: Hub) -> None:
    with pytest.raises(RunFolderError, match=r"palbert evaluate .* --checkpoint best-sst"):
        palbert.push(run_copy, "owner/tiny", checkpoint="best-sst")
    report = palbert.evaluate(run_copy, checkpoint="best-sst")
    done = palbert.push(run_copy, "owner/tiny", checkpoint="best-sst", yes=True)
    assert done.sent and done.checkpoint == "best-sst" and "checkpoint | best-sst, step" in done.card
    files = hub.files("owner/tiny")
    weights = (run_copy / "checkpoints" / "best-sst" / "model.safetensors").read_bytes()
    assert files["checkpoints/best/model.safetensors"] == weights
    assert json.loads(files["report.json"])["tasks"] == report.summary["tasks"]


def test_a_second_push_replaces_the_run_and_removes_what_it_no_longer_has(run_copy: Path, hub: Hub) -> None:
    palbert.push(run_copy, "owner/tiny", yes=True)
    repository = hub.repositories["owner/tiny"]
    old = {**hub.files("owner/tiny"), "checkpoints/best/decisions.json": b"{}", "LICENSE": b"mine"}
    repository.commit(old)
    palbert.push(run_copy, "owner/tiny", yes=True, licence="mit")
    files = hub.files("owner/tiny")
    assert files.keys() == SENT | {".gitattributes", "LICENSE"}
    assert b"license: mit" in files["README.md"]
    assert len(repository.commits) == 4


def test_a_damaged_checkpoint_is_not_pushed(run_copy: Path, hub: Hub, cli: Cli) -> None:
    weights = run_copy / "checkpoints" / "best" / "model.safetensors"
    content = weights.read_bytes()
    weights.unlink()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    result = cli("push", run_copy, "owner/tiny", "--yes")
    assert result.code == 2 and "damaged: expected the SHA-256" in result.err
    (weights.parent / RECORD).unlink()
    with pytest.raises(CheckpointError, match="does not list"):
        palbert.push(run_copy, "owner/tiny", yes=True)
    assert hub.requests == []


def test_a_run_that_is_being_trained_is_not_pushed(run_copy: Path, hub: Hub) -> None:
    with RunFolder(run_copy).locked("training"), pytest.raises(RunFolderError, match="another process is training"):
        palbert.push(run_copy, "owner/tiny", yes=True)
    assert hub.requests == []


@pytest.mark.parametrize(
    "name", ["tiny", "a/b/c", "owner/tiny@main", "owner/a--b", "-a/b", "owner/b.", "o w/n", "/n", "a/"]
)
def test_a_name_that_the_hub_does_not_allow_is_refused(name: str, trained: Path) -> None:
    with pytest.raises(DataError, match="cannot be a repository"):
        palbert.push(trained, name)


def test_repositories_with_something_else_are_left_alone(trained: Path, hub: Hub) -> None:
    palbert.push(trained, "owner/tiny", yes=True)
    with pytest.raises(HubError, match="exists already and is public"):
        palbert.push(trained, "owner/tiny", yes=True, private=True)
    hub.repositories["owner/tiny"].commit({"README.md": b"", "config.json": b"{}", "model.safetensors": b""})
    with pytest.raises(HubError, match=r"holds something else than a run of palbert: config\.json"):
        palbert.push(trained, "owner/tiny", yes=True)
    assert hub.files("owner/tiny")["config.json"] == b"{}"


def test_a_private_repository_is_made_private(trained: Path, hub: Hub) -> None:
    done = palbert.push(trained, "owner/tiny", yes=True, private=True)
    assert hub.repositories["owner/tiny"].private and done.private


def test_errors_of_the_hub_say_what_to_do(
    trained: Path, hub: Hub, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_TOKEN", READER)
    denied = cli("push", trained, "owner/tiny", "--yes")
    assert denied.code == 2 and "your token may not write there (403)" in denied.err
    monkeypatch.delenv("HF_TOKEN")
    unknown = cli("push", trained, "owner/tiny", "--yes")
    assert unknown.code == 2 and "no token was given" in unknown.err and "hf auth login" in unknown.err
    monkeypatch.setenv("HF_TOKEN", "hf_writer")
    card = tmp_path / "card.md"
    card.write_text("---\nlicense: wrong\n---\nMine.\n")
    with pytest.raises(HubRefusalError, match='"license" must be one of a list'):
        palbert.push(trained, "owner/tiny", yes=True, card=card)
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    absent = cli("push", trained, "owner/tiny", "--yes")
    assert absent.code == 1 and "the Hub cannot be reached" in absent.err
    assert set(hub.files("owner/tiny")) == {".gitattributes"}


def test_a_commit_that_came_in_between_stops_the_push(trained: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import HfApi

    palbert.push(trained, "owner/tiny", yes=True)
    upload = HfApi.preupload_lfs_files

    def overtaken(api: HfApi, *arguments: Any, **options: Any) -> None:
        hub.repositories["owner/tiny"].commit({**hub.files("owner/tiny"), "README.md": b"another"})
        upload(api, *arguments, **options)

    monkeypatch.setattr(HfApi, "preupload_lfs_files", overtaken)
    with pytest.raises(HubError, match="somebody else has changed it in the meantime"):
        palbert.push(trained, "owner/tiny", yes=True)
    assert hub.files("owner/tiny")["README.md"] == b"another"


def test_an_own_card_is_sent_as_it_is_and_must_have_metadata(trained: Path, hub: Hub, tmp_path: Path) -> None:
    card = tmp_path / "card.md"
    card.write_text("---\nlicense: mit\n---\nMine.\n")
    palbert.push(trained, "owner/tiny", yes=True, card=card)
    assert hub.files("owner/tiny")["README.md"] == card.read_bytes()
    with pytest.raises(DataError, match="under which licence"):
        palbert.push(trained, "owner/tiny", card=card, licence="mit")
    card.write_text("Mine.\n")
    with pytest.raises(DataError, match="does not begin with metadata"):
        palbert.push(trained, "owner/tiny", card=card)
    with pytest.raises(DataError, match=r"absent\.md: cannot be read"):
        palbert.push(trained, "owner/tiny", card=tmp_path / "absent.md")


def test_what_was_pushed_is_shown_as_a_table(trained: Path) -> None:
    found = palbert.push(trained, "owner/tiny")
    html = found._repr_html_()
    assert "<td" in html and "checkpoints/best/model.safetensors" in html and "Nothing was sent" in html
    assert repr(found).splitlines()[0].split() == ["file", "size"]
