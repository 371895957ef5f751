"""Check: a space is tried on its recipe before the first trial, so that no trial fails for a setting."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations, islice, product
from math import prod
from typing import Any

from palbert.build import check_names
from palbert.errors import PalbertError, RecipeError
from palbert.recipe.schema import Recipe
from palbert.recipe.space import Dimension, Parameter, Space

MOST_CORNERS = 512
"""Corners of a space that are all tried; of a space with more, every pair of values is."""
MOST_SHOWN = 20

log = logging.getLogger(__name__)

Load = Callable[[Sequence[str]], Recipe]
"""Returns the recipe with `key=value` overrides, or raises RecipeError."""


def suited(space: Space, load: Load) -> Space:
    """Return a space without the settings that a recipe cannot have, or that have no effect on it."""
    with quiet():
        base = load(())
        left_out = {each.key for each in space.dimensions if not _takes(base, each.key)}
        for each in space.dimensions:
            if each.key not in left_out and not any("." in key and each.key.startswith(f"{key}.") for key in left_out):
                problems, effective = _try_values(space, each, load)
                left_out |= {each.key} if problems or not effective else set()
    if left_out:
        log.info("left out of the space, as they do not fit this recipe: %s", ", ".join(sorted(left_out)))
    kept = space.without(left_out)
    if not kept.dimensions:
        raise RecipeError(f"{space.name}: no setting of it has an effect on this recipe.", hint="Give another --space.")
    return kept


def check_space(space: Space, load: Load) -> None:
    """Raise RecipeError with all problems of a space: unknown keys, values, and values that contradict each other."""
    problems = dict.fromkeys(space.problems)
    with quiet():
        for each in space.dimensions:
            found, effective = _try_values(space, each, load)
            problems |= dict.fromkeys(found)
            if not found and not effective:
                problems[f"{each.key}: has no effect on this recipe, whose phases have a setting of their own."] = None
        for corner in () if problems else islice(_corners(space), MOST_CORNERS * 20):
            for problem in _try(space, corner, load):
                text = ", ".join(f"{key} = {value}" for key, value in corner.items())
                problems[f"{text}: {problem}"] = None
            if len(problems) >= MOST_SHOWN:
                break
    if problems:
        raise RecipeError("\n".join(f"{space.name}: {problem}" for problem in problems))


def _try_values(space: Space, dimension: Dimension, load: Load) -> tuple[list[str], bool]:
    """Return the problems of a setting's own values, and whether the recipe depends on them."""
    found: dict[str, list[str]] = {}
    effects: list[Any] = []
    for value in dimension.extremes:
        corner = _with_parent(space, dimension, value)
        for problem in _try(space, corner, load, effects):
            found.setdefault(problem, []).append(str(value))
    count = len(dimension.extremes)
    key = dimension.key
    problems = [
        text if len(values) == count or text.startswith(f"{key}: ") else f"{key} = {', '.join(values)}: {text}"
        for text, values in found.items()
    ]
    return problems, any(effect != effects[0] for effect in effects[1:])


def _with_parent(space: Space, dimension: Dimension, value: Parameter) -> dict[str, Parameter]:
    """Return a setting with the part that it is an option of, if that is searched too."""
    parents = {each.key: each.extremes[0] for each in space.dimensions if dimension.key.startswith(f"{each.key}.")}
    return {**parents, dimension.key: value}


def _corners(space: Space) -> Iterator[dict[str, Parameter]]:
    """Yield all corners; where they are too many, all pairs of values: contradictions have two sides."""
    dimensions = space.dimensions
    if prod(len(each.extremes) for each in dimensions) <= MOST_CORNERS:
        chosen: Iterator[tuple[Dimension, ...]] = iter([dimensions])
    else:
        chosen = combinations(dimensions, 2)
    for some in chosen:
        for values in product(*(each.extremes for each in some)):
            corner: dict[str, Parameter] = {}
            for each, value in zip(some, values, strict=True):
                corner = {**_with_parent(space, each, value), **corner, each.key: value}
            yield corner


def _try(space: Space, corner: Mapping[str, Parameter], load: Load, effects: list[Any] | None = None) -> list[str]:
    """Return what is wrong with a recipe that has some values of the space, one problem per line."""
    try:
        recipe = load(space.overrides(corner))
        check_names(recipe)
    except RecipeError as error:
        return [_without_file(line) for line in str(error.message).splitlines()]
    except PalbertError as error:
        return [str(error)]
    if effects is not None:
        effects.append(_effect(recipe))
    return []


def _effect(recipe: Recipe) -> Any:
    """Return what a run depends on: the sections that phases have of their own do not count."""
    return recipe.model_dump(exclude={"training", "optimizer", "objectives"} if recipe.phases else None)


def _without_file(line: str) -> str:
    """Return a problem without the name of the recipe in front of it."""
    first, separator, rest = line.partition(".toml: ")
    return rest if separator and " " not in first else line.removeprefix("recipe: ")


def _takes(recipe: Recipe, key: str) -> bool:
    """Whether a setting can have an effect on a recipe, where the schema itself does not say so."""
    trained = recipe.training.trains or ("encoder",)
    if key == "optimizer.adapter_learning_rate":
        return recipe.adapters is not None
    if key == "training.sampler":
        return len(recipe.sets) > 1
    if key in ("optimizer.learning_rate", "optimizer.layer_decay"):
        return not recipe.encoder.frozen and "encoder" in trained
    return True


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what recipes that are only tried, or read again, would say out of the log."""
    logger = logging.getLogger("palbert")
    former = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(former)
