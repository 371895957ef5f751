"""Splitting: whether one backward pass over a batch of all tasks can give each task's gradient."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from palbert.build.machine import Machine
from palbert.gradients.split import Trunk
from palbert.model.factors import are_cheaper
from palbert.model.multitask import MultiTaskModel
from palbert.objectives.objectives import Objectives
from palbert.registry import OBJECTIVES

log = logging.getLogger(__name__)


def find_trunk(
    model: MultiTaskModel, objective: Objectives, machine: Machine, *, tokens: float, tasks: int, processes: int
) -> Trunk | None:
    """Return the parameters whose gradients one backward pass gives per task; None, with a line in the log, if none.

    Args:
        model: The model.
        objective: The objective.
        machine: Where to compute.
        tokens: Mean number of tokens in a step with a batch of every set.
        tasks: Maximum number of tasks in a step.
        processes: Processes that train together; factors of several cannot be summed.
    """
    obstacle = next(_obstacles(model, objective, machine), None)
    if obstacle:
        log.info("each task has its own backward pass: %s", obstacle)
        return None
    shared = [parameter for parameter in model.encoder.trunk().parameters() if parameter.requires_grad]
    words, relative = model.encoder.embeddings.word.weight, model.encoder.relative
    large = [
        weight
        for weight in shared
        if (relative is None or weight is not relative.weight)  # its gradient is never a product over tokens
        and are_cheaper(weight, tokens=tokens, tasks=tasks, lookup=weight is words)
    ]
    own = [parameter for parameter in model.adapters.parameters() if parameter.requires_grad]
    return Trunk(shared=shared, own=own, large=large if processes == 1 else ())


def _obstacles(model: MultiTaskModel, objective: Objectives, machine: Machine) -> Iterator[str]:
    """Yield the reasons why gradients of the encoder cannot be split."""
    unknown = model.encoder.unsplittable()
    if unknown:
        yield f"the encoder has custom parts ({', '.join(unknown)})"
    shared = len(set(model.adapter_of.values())) < len(model.adapter_of)
    if shared and any(parameter.requires_grad for parameter in model.adapters.parameters()):
        yield "tasks share an adapter"
    known = {OBJECTIVES[name] for name in OBJECTIVES.paths}  # not those of installed packages
    if any(type(term) not in known for term in objective.terms):
        yield "a custom objective may use the encoder's weights"
    if machine.device.type != "cuda" and machine.precision != "fp32":
        yield f"{machine.precision} on {machine.device}"
