"""Error words: the worst errors of a report have scored words; a report needs none of them."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

import palbert
from palbert.build import Machine, build_inference, load_split, open_checkpoint
from palbert.inference.evaluator import evaluate_tasks
from palbert.recipe.load import load_run_recipe
from palbert.reporting.panels import panels_of
from palbert.verbs.error_words import SHOWN, error_words

pytestmark = pytest.mark.usefixtures("on_cpu", "no_plots")


def evaluated(run: Path) -> tuple[Any, ...]:
    """Return the arguments of `error_words` for the dev rows of a run."""
    machine, opened = (
        Machine.of("cpu", "fp32"),
        open_checkpoint(run / "checkpoints" / "best", Machine.of("cpu", "fp32")),
    )
    recipe = load_run_recipe(run / "recipe.toml")
    inference = build_inference(opened.model, tokenizer=opened.tokenizer, machine=machine)
    results = evaluate_tasks(inference, recipe.tasks, load_split(recipe, "dev", opened.tokenizer))
    return recipe.tasks, results, inference, machine, opened.tokenizer


def test_the_worst_errors_have_the_scores_of_their_masked_words(trained: Path) -> None:
    tasks, results, inference, machine, tokenizer = evaluated(trained)
    found, model = error_words(tasks, results, inference, machine, tokenizer), palbert.load(trained)
    for result in results:
        worst = panels_of(result.target).worst(result)[:SHOWN]
        assert list(found[result.task]) == worst.tolist()
        row = int(worst[0])
        texts = result.texts[row]
        [expected] = model.explain(result.task, [texts if len(texts) == 2 else texts[0]], method="occlusion")
        mine = [word for column in found[result.task][row] for word in column]
        assert [(start, end) for start, end, _ in mine] == [(word.start, word.end) for word in expected.words]
        assert [score for *_, score in mine] == pytest.approx([word.score for word in expected.words], abs=1e-4)


def test_the_report_shows_them(run_copy: Path) -> None:
    page = palbert.evaluate(run_copy).page.read_text("utf-8")
    words = re.findall(r'<span class="word (?:for|against)[^"]*" style="--strength: [\d.]+" title="[+-][\d.]+">', page)
    assert len(words) > 3 * SHOWN
    assert "Blue words raise the number" in page and "Blue words raise the log odds of the predicted class" in page


def test_long_texts_are_left_out(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palbert.verbs.error_words.MOST_TOKENS", 10)
    assert all(rows == {} for rows in error_words(*evaluated(trained)).values())


def test_a_report_is_written_if_a_task_cannot_be_explained(
    run_copy: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Any, outputs: Any) -> Any:
        raise RuntimeError("my own target")

    monkeypatch.setattr("palbert.targets.number.Number.log_odds", fail)
    with caplog.at_level(logging.WARNING, logger="palbert"):
        page = palbert.evaluate(run_copy).page.read_text("utf-8")
    assert "does not show the words behind the errors of sts: my own target" in caplog.text
    assert "Blue words raise the number" not in page and "Blue words raise the log odds" in page
