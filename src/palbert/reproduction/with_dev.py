"""Train on dev too: a recipe for the last run, when everything has been chosen."""

from __future__ import annotations

from palbert.recipe.schema import Recipe
from palbert.recipe.sections import Phase


def with_dev(recipe: Recipe, *, epochs: int) -> Recipe:
    """Return a recipe that trains on train and dev together for so many epochs, over all phases.

    Its dev rows stay what they are, so the scores of such a run are of rows that it has learnt.
    """
    tasks = {
        name: task.model_copy(
            update={
                "train": task.train + task.dev,
                "drop_overlap": tuple(kind for kind in task.drop_overlap if not kind.startswith("dev")),
            }
        )
        for name, task in recipe.tasks.items()
    }
    length = f"{epochs} epoch{'s' * (epochs > 1)}"
    told = f"Trained on train and dev together for {length}: scores on dev are of rows it has learnt."
    changes = {"tasks": tasks, "description": f"{recipe.description} {told}".strip()}
    if recipe.phases:
        return recipe.model_copy(update={**changes, "phases": _first(recipe.phases, epochs)})
    return recipe.model_copy(update={**changes, "training": recipe.training.model_copy(update={"epochs": epochs})})


def has_dev(recipe: Recipe) -> bool:
    """Whether a recipe trains on all of its dev files."""
    return all(source in task.train for task in recipe.tasks.values() for source in task.dev)


def _first(phases: tuple[Phase, ...], epochs: int) -> tuple[Phase, ...]:
    """Keep the first epochs of a run in phases."""
    kept = []
    for phase in phases:
        own = min(phase.training.epochs, epochs)
        if own:
            kept.append(phase.model_copy(update={"training": phase.training.model_copy(update={"epochs": own})}))
        epochs -= own
    return tuple(kept)
