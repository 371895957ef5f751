"""Notes: what a reader of a report should know about the scores, the most serious first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from palbert.reporting.display import shortened
from palbert.runtime.progress import is_shown
from palbert.verbs.findings import data, scores, training
from palbert.verbs.findings.evidence import Evidence

log = logging.getLogger(__name__)

FINDINGS: tuple[Callable[[Evidence], Iterator[str]], ...] = (
    data.sample_data,
    data.scored_on_training_files,
    data.leaked_rows,
    data.seen_by_encoder,
    data.one_class_in_train,
    scores.constant_answer,
    scores.below_baseline,
    training.best_before_training,
    data.class_absent_in_train,
    scores.class_never_found,
    training.unstable_loss,
    training.too_few_steps,
    data.conflicting_labels,
    training.still_rising,
    scores.wide_interval,
    data.class_absent_in_split,
    data.cut,
    data.left_out,
    data.held_out,
)
"""Everything that is looked for, the most serious first."""


def worth_knowing(evidence: Evidence) -> list[str]:
    """Return one sentence for everything that went wrong or may mislead, the most serious first."""
    return [note for finding in FINDINGS for note in finding(evidence)]


def log_notes(notes: Sequence[str]) -> None:
    """Log the most serious notes, as warnings unless progress is hidden; a terminal shows them below the scores."""
    for note in shortened(notes):
        log.log(logging.WARNING if is_shown() else logging.INFO, "%s", note)
