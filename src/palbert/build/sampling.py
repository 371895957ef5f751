"""The sampler of a recipe, and the sizes of its batches."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from palbert.build.named import make
from palbert.data.tokenizer import Template
from palbert.options import takes
from palbert.recipe.schema import Recipe
from palbert.registry import SAMPLERS
from palbert.tasks.choices import Component
from palbert.training.buckets import Buckets
from palbert.training.feed import Sets
from palbert.training.samplers import Sampler, Settings


def make_sampler(recipe: Recipe, *, rows: Mapping[str, int]) -> Sampler:
    """Make the sampler for sets of these sizes."""
    training = recipe.training
    sampler: Sampler = make(
        SAMPLERS,
        _with_factors(training.sampler, recipe.factors),
        "training.sampler",
        Settings(
            rows=rows,
            batch_sizes={name: recipe.batch_size(spec) for name, spec in recipe.sets.items()},
            tasks={name: spec.task.name for name, spec in recipe.sets.items()},
            epochs=training.epochs,
            steps=training.steps_per_epoch,
            seed=recipe.seed,
        ),
    )
    return sampler


def takes_factors(sampler: Component) -> bool:
    """Whether a sampler draws sets by factors."""
    return takes(SAMPLERS.find(sampler.name, "training.sampler"), "factors")


def _with_factors(sampler: Component, factors: Mapping[str, float]) -> Component:
    """Give a sampler the factors of the sets; those among its own options take precedence."""
    own = sampler.options.get("factors", {})
    if not factors or not takes_factors(sampler) or not isinstance(own, Mapping):  # the sampler refuses these options
        return sampler
    return sampler.model_copy(update={"factors": {**factors, **own}})


def make_buckets(sets: Sets, template: Template, device: torch.device) -> dict[str, Buckets] | None:
    """Choose the sizes of every set's batches from the lengths of its rows; None if steps cannot be captured.

    On CUDA, batches are padded even if capturing is turned off, so that results are the same.
    """
    return choose_buckets(sets, template) if device.type == "cuda" else None


def choose_buckets(sets: Sets, template: Template) -> dict[str, Buckets]:
    """Choose the sizes of every set's batches from the lengths of its rows."""
    buckets = {}
    for name, each in sets.items():
        lengths = each.sequence_lengths(template)
        buckets[name] = Buckets(lengths.sum(axis=0), longest=int(lengths.max()))
    return buckets


def tokens_per_step(sets: Sets, template: Template) -> float:
    """Return the mean number of tokens of a step with a batch of every set."""
    return sum(each.batch_size * float(each.sequence_lengths(template).sum(axis=0).mean()) for each in sets.values())
