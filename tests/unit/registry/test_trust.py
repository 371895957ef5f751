"""Trust: code from outside palbert runs only where the user named or allowed it."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import palbert
from palbert.errors import TrustError
from palbert.recipe.load import load_run_recipe, make_recipe
from palbert.registry import HEADS, trust
from palbert.registry.trust import admit, allow, allow_recipe, is_trusting, outside_names, trusting
from palbert.runtime.checksums import record_folder

HEAD = """
from pathlib import Path
from palbert.extend import Head
from torch import nn

Path({mark!r}).write_text("imported")


class Evil(Head):
    \"\"\"A head that leaves a mark when its module is imported.\"\"\"

    def __init__(self, hidden_size: int, outputs: int) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden_size, outputs)

    def forward(self, vectors):
        return self.dense(vectors)
"""


@pytest.fixture(autouse=True)
def nothing_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "_allowed", set())


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put the module `evil` on the path; return the file that it writes when it is imported."""
    (tmp_path / "evil.py").write_text(HEAD.format(mark=str(tmp_path / "mark")), "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "mark"
    sys.modules.pop("evil", None)


@pytest.fixture
def stranger(trained: Path, tmp_path: Path, mark: Path) -> Path:
    """Return a run whose recipe and checkpoints name `evil:Evil` as the head of sst."""
    run = Path(shutil.copytree(trained, tmp_path / "stranger", symlinks=True))
    for file in run.glob("checkpoints/*/palbert.json"):
        description = json.loads(file.read_text("utf-8"))
        description["tasks"]["sst"]["head"] = {"name": "evil:Evil"}
        file.write_text(json.dumps(description), "utf-8")
        record_folder(file.parent)
    recipe = run / "recipe.toml"
    text = recipe.read_text("utf-8")
    assert text.count('name = "mlp"') == 1
    recipe.write_text(text.replace('name = "mlp"', 'name = "evil:Evil"'), "utf-8")
    return run


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "RUN", "--task", "sst", "--text", "good"),
        ("embed", "RUN", "--text", "good"),
        ("explain", "RUN", "--task", "sst", "--text", "good"),
        ("serve", "RUN", "--port", "0", "--audit", "off"),
        ("evaluate", "RUN"),
        ("submit", "RUN", "--split", "dev"),
        ("compare", "RUN", "RUN"),
        ("export", "RUN", "--out", "OUT"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_no_verb_imports_what_a_strangers_run_names(
    arguments: tuple[str, ...], stranger: Path, mark: Path, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    places = {"RUN": stranger, "OUT": tmp_path / "out"}
    done = cli(*(places.get(argument, argument) for argument in arguments))
    assert done.code == 2 and "names code from outside palbert, which would run: evil:Evil" in done.err
    assert "--trust" in done.err and not mark.exists()


def test_trust_imports_it_and_shows_the_names(stranger: Path, mark: Path, cli: Callable[..., Any]) -> None:
    done = cli("predict", stranger, "--task", "sst", "--text", "good", "--trust")
    assert "palbert.json loads code from outside palbert: evil:Evil (tasks.sst.head)" in done.err
    assert mark.exists()  # and the weights of a two-layer head do not fit it
    assert not is_trusting()


def test_python_takes_trust_as_an_argument(stranger: Path, mark: Path) -> None:
    with pytest.raises(TrustError, match="evil:Evil"):
        palbert.load(stranger)
    with pytest.raises(TrustError, match="evil:Evil"):
        palbert.evaluate(stranger)
    assert not mark.exists()
    with pytest.raises(palbert.PalbertError, match="do not fit"):
        palbert.load(stranger, trust=True)
    assert mark.exists()


@pytest.mark.parametrize("setting", ["teachers", "keep"])
def test_teachers_and_kept_parts_are_not_trusted_because_the_recipe_names_them(
    setting: str, stranger: Path, mark: Path, tiny_recipe: dict[str, Any], tmp_path: Path
) -> None:
    if setting == "teachers":
        tiny_recipe["tasks"]["sst"]["teachers"] = [str(stranger)]
    else:
        tiny_recipe["encoder"] = {"name": str(stranger), "keep": ["heads"]}
    with pytest.raises(palbert.PalbertError, match="names code from outside palbert, which would run: evil:Evil"):
        palbert.train(tiny_recipe, out=tmp_path / "run")
    assert not mark.exists()


def test_a_run_that_this_process_trained_needs_no_trust(
    mark: Path, tiny_recipe: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tiny_recipe["tasks"]["sst"]["head"] = "evil:Evil"
    with caplog.at_level(logging.INFO, "palbert"):
        run = palbert.train(tiny_recipe, out=tmp_path / "run")
    assert "recipe loads code from outside palbert: evil:Evil (tasks.sst.head)" in caplog.messages
    assert mark.exists() and len(run.predict("sst", ["good"])) == 1


@pytest.mark.parametrize("trust", [(), ("--trust",)], ids=["without trust", "with trust"])
def test_a_family_is_only_looked_up_by_name(
    trained: Path,
    tmp_path: Path,
    mark: Path,
    tiny_recipe: dict[str, Any],
    cli: Callable[..., Any],
    trust: tuple[str, ...],
) -> None:
    """It says how weights are called in other libraries; a checkpoint is opened without it."""
    run = Path(shutil.copytree(trained, tmp_path / "stranger"))
    for file in run.glob("checkpoints/*/palbert.json"):
        description = json.loads(file.read_text("utf-8"))
        description["encoder"]["family"] = "evil:Evil"
        file.write_text(json.dumps(description), "utf-8")
        record_folder(file.parent)
    assert cli("predict", run, "--task", "sst", "--text", "good", *trust).code == 0
    (tmp_path / "next.toml").write_text(tomli_w.dumps({**tiny_recipe, "encoder": {"name": str(run)}}), "utf-8")
    for command in (
        ("export", run, "--out", tmp_path / "out", *trust),
        ("train", tmp_path / "next.toml", "--out", tmp_path / "next"),
    ):
        done = cli(*command)
        assert done.code == 2 and "unknown encoder family 'evil:Evil'" in done.err, command
    assert not mark.exists()


def test_resuming_asks_before_the_former_recipe_is_read(stranger: Path, mark: Path) -> None:
    with pytest.raises(TrustError, match="evil:Evil"):
        load_run_recipe(stranger / "recipe.toml")
    assert not mark.exists()


def test_names_are_found_wherever_a_part_is_named() -> None:
    values = {
        "relation": {"name": "a:A"},
        "adapters": {"kinds": 3, "name": "b.c:B"},
        "objectives": [{"name": "d:D"}, {"name": "simcse"}],
        "tasks": {"t": {"head": "e:E", "metrics": ["f:f", "accuracy"], "text": ["not:named"], "train": "x:y"}},
        "phases": [{"sampler": "g:G"}],
    }
    assert outside_names(values) == {
        "a:A": ["relation"],
        "b.c:B": ["adapters"],
        "d:D": ["objectives.0"],
        "e:E": ["tasks.t.head"],
        "f:f": ["tasks.t.metrics.0"],
        "g:G": ["phases.0.sampler"],
    }


def test_a_name_that_reaches_a_table_by_another_way_is_refused_there(mark: Path) -> None:
    with pytest.raises(TrustError, match="'evil:Evil' is code from outside palbert"):
        HEADS.find("evil:Evil")
    assert not mark.exists()
    with trusting():
        assert HEADS.find("evil:Evil").__name__ == "Evil"
    assert HEADS.find("evil:Evil").__name__ == "Evil"  # allowed from now on


def test_a_loaded_class_allows_what_its_attributes_name() -> None:
    class Mine:
        losses = ("mine:poisson", "mse")
        panels = "mine:Panels"

    trust.allow_named_by(Mine)
    trust.allow_named_by(len)  # a metric is a function
    assert trust._allowed == {"mine:poisson", "mine:Panels"}


def test_trusting_ends_with_its_block_and_false_keeps_the_outer_one() -> None:
    with trusting(False):
        assert not is_trusting()
    with trusting(), trusting(False):
        assert is_trusting()
    assert not is_trusting()


def test_what_is_allowed_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    values = {"relation": "mine:Relation"}
    with caplog.at_level(logging.INFO, "palbert"):
        allow_recipe(values, "my.toml")
        allow_recipe(values, "my.toml")
        admit(values, "palbert.json")
    assert caplog.messages == ["my.toml loads code from outside palbert: mine:Relation (relation)"]
    allow("other:Relation")
    admit({"relation": "other:Relation"}, "palbert.json")


def test_a_recipe_allows_only_what_it_names(tiny_recipe: dict[str, Any], mark: Path, tmp_path: Path) -> None:
    make_recipe(tiny_recipe)
    (tmp_path / "recipe.toml").write_text(tomli_w.dumps({"relation": {"name": "evil:Evil"}}), "utf-8")
    with pytest.raises(TrustError, match=r"recipe\.toml: names code .* evil:Evil \(relation\)"):
        load_run_recipe(tmp_path / "recipe.toml")
