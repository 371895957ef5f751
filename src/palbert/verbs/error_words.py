"""Error words: the scores of the words in a report's worst errors, by masking each of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from palbert.build import Machine
from palbert.data.tokenizer import TextTokenizer
from palbert.explanations.explained import Explained
from palbert.explanations.occlusion import occlusion
from palbert.explanations.row import Row
from palbert.inference.decisions import Decision
from palbert.inference.evaluator import Inference
from palbert.inference.results import TaskResult
from palbert.reporting.panels import panels_of
from palbert.reporting.word_marks import ScoredWords
from palbert.targets import Decoded
from palbert.tasks.spec import Task

SHOWN = 5
"""Errors of a task whose words are scored."""
MOST_TOKENS = 20_000
"""Tokens of all masked copies of a row; longer texts, of about 140 words, are shown without scores."""

log = logging.getLogger(__name__)


def error_words(
    tasks: Mapping[str, Task],
    results: Sequence[TaskResult],
    inference: Inference,
    machine: Machine,
    tokenizer: TextTokenizer,
) -> dict[str, dict[int, list[ScoredWords]]]:
    """Return the scored words of each task's worst errors, by task and row.

    Masking is as faithful as integrated gradients, and takes a few forward passes per row. A task that cannot be
    explained, such as one with a target of the user's own, is left out with a warning: reports do not depend on it.
    """
    found = {}
    for result in results:
        try:
            found[result.task] = _of_task(tasks[result.task], result, inference, machine, tokenizer)
        except Exception as error:
            log.warning("The report does not show the words behind the errors of %s: %s", result.task, error)
    return found


def _of_task(
    task: Task, result: TaskResult, inference: Inference, machine: Machine, tokenizer: TextTokenizer
) -> dict[int, list[ScoredWords]]:
    target, scored = task.target, {}
    decision = inference.decisions.get(task.name) or Decision.of(task)
    which = target.decided(Decoded(result.predicted, result.probabilities))
    for number in panels_of(target).worst(result)[:SHOWN]:
        index, chosen = int(number), int(which[number])
        row = Row.of(task, result.texts[index], tokenizer)
        if row.tokens * (len(row.words) + 2) > MOST_TOKENS:
            continue
        explained = Explained(
            inference.model,
            lambda outputs, chosen=chosen: target.log_odds(decision.calibrated(outputs))[:, chosen],  # type: ignore[misc]
            machine.device,
            inference.arithmetic,
        )
        scores, *_ = occlusion(explained, row, tokenizer.neutral_id())
        columns: list[list[tuple[int, int, float]]] = [[] for _ in result.texts[index]]
        for word, score in zip(row.words, scores, strict=True):
            columns[word.column].append((word.start, word.end, float(score)))
        scored[index] = list(columns)
    return scored  # type: ignore[return-value]
