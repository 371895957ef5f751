"""Errors: what they say, what catches them, and which exit code they end with."""

from __future__ import annotations

from pathlib import Path

import pytest

from palbert.errors import (
    DataError,
    MissingExtraError,
    PalbertError,
    StoppedError,
    TrainingError,
    did_you_mean,
    first_line,
    listed,
)
from palbert.terminal import how_to_continue


def test_an_error_is_its_message_followed_by_its_hint() -> None:
    assert str(DataError("a.tsv: empty.", hint="Give another file.")) == "a.tsv: empty. Give another file."
    assert str(DataError("a.tsv: empty.")) == "a.tsv: empty."


def test_the_first_line_of_an_error_is_short_and_never_empty() -> None:
    assert first_line(OSError("\nNo page.\nTraceback")) == "No page"
    assert first_line(TimeoutError()) == "TimeoutError"
    assert len(first_line(OSError("x" * 10_000))) == 200


def test_bad_input_is_a_value_error_with_exit_code_2_and_a_failed_run_has_1() -> None:
    assert isinstance(DataError("x"), ValueError) and DataError("x").exit_code == 2
    assert TrainingError("x").exit_code == 1


def test_a_stop_passes_handlers_of_failures_and_is_caught_as_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt):
        try:
            raise StoppedError(Path("runs/a"), verb="train")
        except Exception:
            pytest.fail("a stop is not a failure")
    assert not issubclass(StoppedError, PalbertError)


def test_a_stop_knows_its_folder_and_its_verb() -> None:
    stop = StoppedError(Path("runs/a"), verb="pretrain")
    assert (stop.folder, stop.verb) == (Path("runs/a"), "pretrain")
    assert "runs/a" in str(stop)


@pytest.mark.parametrize("verb", ["train", "pretrain"])
def test_a_stopped_run_is_continued_by_its_own_recipe(verb: str) -> None:
    hint = how_to_continue(StoppedError(Path("my runs/a"), verb=verb))  # type: ignore[arg-type]
    assert hint == f"Continue with: palbert {verb} 'my runs/a'/recipe.toml --out 'my runs/a' --resume"


@pytest.mark.parametrize("verb", ["reproduce", "submit"])
def test_a_stopped_table_or_submission_is_continued_by_its_own_command(verb: str) -> None:
    assert how_to_continue(StoppedError(Path("out"), verb=verb)) == "Continue with the same command."  # type: ignore[arg-type]


def test_a_missing_extra_names_the_command_that_installs_it() -> None:
    error = MissingExtraError("Plots need", package="matplotlib", extra="plots")
    assert str(error) == "Plots need matplotlib. Install it with: pip install 'palbert[plots]'"


def test_unknown_names_are_refused_with_all_known_ones_and_the_nearest() -> None:
    assert did_you_mean("sst-2", ["sts", "sst"]) == "Known: sst, sts. Did you mean 'sst'?"
    assert did_you_mean("zzz", ["sts", "sst"]) == "Known: sst, sts."


def test_a_message_lists_no_more_names_than_a_reader_can_use() -> None:
    names = [f"column{number}" for number in range(100_000)]
    assert did_you_mean("colum1", names).endswith("and 99,940 more. Did you mean 'column1'?")
    assert listed(["a", "b" * 200]) == f"a, {'b' * 100}…"
    assert "Did you mean" not in did_you_mean("x" * 100_000, ["x" * 100_000])
