"""Explainer: explanations of a task's answers, by any of the methods."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np
from torch import Tensor

from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError, did_you_mean
from palbert.explanations.explained import Explained
from palbert.explanations.explanation import Explanation, WordScore
from palbert.explanations.gradients import TOLERANCE, gradient_input, integrated_gradients, replaced_words
from palbert.explanations.occlusion import interactions, occlusion
from palbert.explanations.row import Row
from palbert.tasks.spec import Task

Method = Literal["integrated-gradients", "gradient-input", "occlusion"]
METHODS: tuple[Method, ...] = get_args(Method)
OpenExplained = Callable[[Callable[[Tensor], Tensor]], Explained]
"""Makes a model's function of what picks the explained number from a head's outputs."""

log = logging.getLogger(__name__)


class Explainer:
    """Explains answers of a trained model.

    Args:
        tokenizer: The model's tokenizer.
        plain: The model that answers, for methods that need no gradients.
        differentiable: The same model with layers that have gradients; called when they are needed.
    """

    def __init__(self, *, tokenizer: TextTokenizer, plain: OpenExplained, differentiable: OpenExplained) -> None:
        self.tokenizer = tokenizer
        self.plain = plain
        self.differentiable = differentiable

    def __call__(
        self,
        task: Task,
        texts: Sequence[str],
        *,
        target: str,
        number: Callable[[Tensor], Tensor],
        method: str = METHODS[0],
        with_interactions: bool = False,
    ) -> Explanation:
        """Explain the answer for one row.

        Args:
            task: The task that answered.
            texts: One text, or two.
            target: The class that is explained; empty for a number.
            number: Picks its log odds, or the number, from the head's outputs.
            method: "integrated-gradients", "gradient-input" or "occlusion".
            with_interactions: Whether to add those of the words of a pair.
        """
        check_method(method)
        row = Row.of(task, texts, self.tokenizer)
        token = self.tokenizer.neutral_id()
        steps = error = None
        special = 0.0  # occlusion leaves special tokens where they are
        if method == "occlusion":
            scores, output, baseline = occlusion(self.plain(number), row, token)
        else:
            explained = self.differentiable(number)
            compute = integrated_gradients if method == "integrated-gradients" else gradient_input
            found = compute(explained, row, replaced_words(explained, row, self.tokenizer.padding_id()))
            scores, special = row.by_word(found.scores)
            output, baseline, steps, error = found.output, found.baseline, found.steps, found.error
            if error is not None and error > TOLERANCE:
                log.warning("The scores miss the output by %.1f %% after %d steps.", 100 * error, steps)
        alone = scores if method == "occlusion" else None
        pairwise = interactions(self.plain(number), row, token, alone=alone) if with_interactions else None
        return Explanation(
            task=task.name,
            target=target,
            method=method,
            words=_scored(row, scores),
            special=special,
            output=output,
            baseline=baseline,
            completeness_error=error,
            steps=steps,
            interactions=pairwise,
        )


def check_method(method: str) -> None:
    """Raise DataError for a method that does not exist."""
    if method not in METHODS:
        raise DataError(f"Unknown method '{method}'.", hint=did_you_mean(method, METHODS))


def _scored(row: Row, scores: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[WordScore, ...]:
    return tuple(
        WordScore(word.text, word.start, word.end, float(score), word.column)
        for word, score in zip(row.words, scores, strict=True)
    )
