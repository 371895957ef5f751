"""Splitting: whether one backward pass over a batch of all tasks can give each task's gradient."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from palbert.build.machine import Machine
from palbert.gradients.kept import Kept, KeptInOnePass
from palbert.gradients.weighted import Weighted
from palbert.model.factors import are_worth_it
from palbert.model.multitask import MultiTaskModel
from palbert.objectives.objectives import Objectives
from palbert.registry import OBJECTIVES, POOLINGS

log = logging.getLogger(__name__)


def split_gradients(
    gradients: Weighted, model: MultiTaskModel, objective: Objectives, machine: Machine, *, tokens: float
) -> None:
    """Let a gradient method take all tasks' gradients in one pass where model and objective allow it.

    Args:
        gradients: The method; one that recomputes gradients stays as it is.
        model: The model.
        objective: The objective.
        machine: Where to compute.
        tokens: Tokens of a step with a batch of every task, on average.
    """
    kept = gradients.memory
    if not isinstance(kept, Kept):
        return
    obstacle = next(_obstacles(model, objective, machine), None)
    if obstacle:
        log.info("each task has a backward pass of its own: %s", obstacle)
        return
    trunk = [parameter for parameter in model.encoder.trunk().parameters() if parameter.requires_grad]
    words, relative = model.encoder.embeddings.word.weight, model.encoder.relative
    gradients.memory = KeptInOnePass(
        kept,
        trunk=trunk,
        own=[parameter for parameter in model.adapters.parameters() if parameter.requires_grad],
        large=[
            weight
            for weight in trunk
            if (relative is None or weight is not relative.weight)  # its gradient is never a product over tokens
            and are_worth_it(weight, tokens=tokens, tasks=kept.rows.most, lookup=weight is words)
        ],
    )


def _obstacles(model: MultiTaskModel, objective: Objectives, machine: Machine) -> Iterator[str]:
    """Say what uses the encoder's weights, or is used by several tasks inside of it, in a way that is not split."""
    unknown = model.encoder.unsplittable()
    if unknown:
        yield f"the encoder has parts of its own kind ({', '.join(unknown)})"
    shared = len(set(model.adapter_of.values())) < len(model.adapter_of)
    if shared and any(parameter.requires_grad for parameter in model.adapters.parameters()):
        yield "tasks share an adapter"
    if any(pooling not in POOLINGS.values() for pooling in model.poolings.values()):
        yield "a pooling of another kind may use the encoder's weights"
    if any(type(term) not in OBJECTIVES.values() for term in objective.terms):
        yield "an objective of another kind may use the encoder's weights"
    if machine.device.type != "cuda" and machine.precision != "fp32":
        yield f"{machine.precision} on {machine.device}"
