"""palbert tune: what is printed, and exit codes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from tests.tuned import SPACE, quick_values

from palbert.errors import StoppedError

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")

Cli = Callable[..., Any]


@pytest.fixture
def recipe(tmp_path: Path, tiny_encoder: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(tomli_w.dumps(quick_values(tmp_path, tiny_encoder)), "utf-8")
    (tmp_path / "space.toml").write_text(tomli_w.dumps({"space": SPACE}), "utf-8")
    return path


def test_tune_prints_a_line_per_trial_and_the_result(recipe: Path, tmp_path: Path, cli: Cli) -> None:
    asked = ("tune", recipe, "--space", tmp_path / "space.toml", "--confirm", 0, "--out", tmp_path / "out")
    result = cli(*asked, "--trials", 2)
    assert result.code == 0
    lines = [line for line in result.err.splitlines() if line.startswith("trial ")]
    assert [line.rpartition("; ")[2].partition(",")[0] for line in lines] == ["1 of 2", "2 of 2"]
    assert "best" in lines[1] and "left" in lines[0]
    assert f"Report: {tmp_path / 'out' / 'report.html'}" in result.out and "training.batch_size" in result.out
    again = cli(*asked)
    assert again.code == 2 and "already holds a search" in again.err
    more = cli(*asked, "--trials", 2, "--resume")
    assert more.code == 0 and more.out == result.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--keep", "some"), "--keep: expected a number or all, found 'some'."),
        (("--time", "soon"), "time: expected a duration"),
        (("--set", "trainig.epochs=2"), "unknown key"),
        (("--resume",), "there is no search to resume"),
    ],
)
def test_wrong_options_are_refused(
    options: tuple[str, ...], message: str, recipe: Path, tmp_path: Path, cli: Cli
) -> None:
    result = cli("tune", recipe, "--out", tmp_path / "out", *options)
    assert result.code == 2 and message in result.err
    assert not (tmp_path / "out").exists()


def test_a_stop_ends_with_130_and_says_how_to_continue(
    recipe: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*given: Any, **settings: Any) -> None:
        raise StoppedError(tmp_path / "out", verb="tune")

    monkeypatch.setattr("palbert.verbs.tune.tune", stop)
    result = cli("tune", recipe, "--out", tmp_path / "out")
    assert result.code == 130 and "Continue with the same command and --resume." in result.err
