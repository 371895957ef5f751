"""Growth: the recipe of a run that gives a trained run more tasks, from the run's own recipe and a file of tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from palbert.errors import RecipeError
from palbert.recipe.auto import SHAPE
from palbert.recipe.explain import explain
from palbert.recipe.load import make_recipe
from palbert.recipe.schema import Recipe
from palbert.recipe.sections import AdapterSection
from palbert.recipe.values import plain
from palbert.tasks.choices import Component
from palbert.tasks.spec import Task

SECTIONS = ("description", "seed", "data", "tasks", "adapters", "training", "optimizer", "run")
"""What a file of tasks may have."""
REASONS = {
    "encoder": "the encoder, its tokenizer and its dropout are the run's, which all its tasks share",
    "relation": "a relational layer is shared by tasks, so those of the run would change",
    "pretraining": "it would change the encoder, which the run's tasks share",
    "overall": "the formula of the overall score is the run's",
    "objectives": "new tasks are trained on their labels alone",
    "phases": "new tasks are trained in one phase",
}
HEADS: dict[str, dict[str, Any]] = {
    "training": {"epochs": 10, "batch_size": 32},
    "optimizer": {"head_learning_rate": 1e-3, "schedule": "stlr"},
}
"""Settings for heads alone, where an epoch takes next to no time."""
WITH_ADAPTERS: dict[str, dict[str, Any]] = {
    "training": {"epochs": 5, "batch_size": 32},
    "optimizer": {"head_learning_rate": 1e-3, "adapter_learning_rate": 1e-3, "schedule": "stlr"},
}
"""Settings for heads and adapters."""
SINGLE: dict[str, Any] = {"pooling": Component(name="mean"), "head_start": "probe"}
PAIR: dict[str, Any] = {"pair_input": "siamese", "head": Component(name="compare"), **SINGLE}
"""The shape of a new task that says nothing about it: what an encoder that is not trained knows is in its means."""


def grown_recipe(run: Recipe, encoder: str, values: Mapping[str, Any], *, folder: Path, name: str) -> Recipe:
    """Return the recipe that adds tasks to a run.

    It starts from the run, keeps all its heads and adapters, and has one phase, which trains the new tasks.

    Args:
        run: The run's recipe.
        encoder: The run, as `encoder.name` takes it.
        values: The content of the file of tasks.
        folder: Where the file's paths start.
        name: What errors call the file.

    Raises:
        RecipeError: Something that the run's tasks share would change, or the values are no valid recipe.
    """
    _refuse_sections(values, name)
    new = _tasks(values, name)
    _refuse_known(new, run, name)
    section = _adapters(run, values.get("adapters"), list(new), name)
    with_own = values.get("adapters") is not None
    trains = ["adapters", "heads"] if with_own else ["heads"]
    chosen = {key: {**defaults, **_table(values, key, name)} for key, defaults in
              (WITH_ADAPTERS if with_own else HEADS).items()}  # fmt: skip
    _refuse_trained(chosen["training"], trains, name)
    kept = {
        "seed": run.seed,
        "run": plain(run.run),
        **{key: values[key] for key in ("description", "seed", "data") if key in values},
        "overall": run.overall,
        "encoder": {"name": encoder, "keep": ["heads", *(["adapters"] if run.adapters else [])], "frozen": True},
        "tasks": {**{task.name: _kept(task) for task in run.tasks.values()}, **new},
        "training": {**chosen["training"], "trains": trains},
        "optimizer": chosen["optimizer"],
        "phases": [{"name": "new tasks", "tasks": list(new)}],
    }
    kept["run"] = {**kept["run"], **_table(values, "run", name)}
    if section is not None:
        kept["adapters"] = section
    if run.relation is not None:
        kept["relation"] = plain(run.relation)
    return _shaped(make_recipe(kept, folder=folder, name=name), new)


def _refuse_sections(values: Mapping[str, Any], name: str) -> None:
    for key in values:
        if key in SECTIONS:
            continue
        reason = f": {REASONS[key]}" if key in REASONS else ""
        raise RecipeError(
            f"{name}: a file of new tasks has no '{key}'{reason}.",
            hint=f"Leave it out, or train all tasks together: palbert train. It may have: {', '.join(SECTIONS)}.",
        )


def _tasks(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the new tasks by name; ["cfimdb"] stands for a table."""
    given = values.get("tasks")
    tasks = {str(task): {} for task in given} if isinstance(given, list) else given
    if not isinstance(tasks, Mapping) or not tasks:
        raise RecipeError(f"{name}: expected the new tasks, [tasks.NAME], found none.")
    return dict(tasks)


def _refuse_known(new: Collection[str], run: Recipe, name: str) -> None:
    known = [task for task in new if task in run.tasks]
    if known:
        raise RecipeError(
            f"{name}: tasks.{known[0]}: the run already has a task '{known[0]}'.",
            hint=f"Give the new one another name, or take the old one out first: palbert remove-task RUN {known[0]}.",
        )


def _table(values: Mapping[str, Any], key: str, name: str) -> dict[str, Any]:
    found = values.get(key)
    if found is not None and not isinstance(found, Mapping):
        raise RecipeError(f"{name}: {key}: expected a table of settings, found {found!r}.")
    return dict(found or {})


def _refuse_trained(training: Mapping[str, Any], trains: list[str], name: str) -> None:
    if training.get("auto") or any(part not in trains for part in training.get("trains", ())):
        raise RecipeError(
            f"{name}: training.{'auto' if training.get('auto') else 'trains'}: new tasks train their "
            f"{' and '.join(trains)}; everything else stays as it is.",
            hint="Leave it out.",
        )


def _kept(task: Task) -> dict[str, Any]:
    """Return a task of the run without what only says how it was trained."""
    values = plain(task.model_dump(exclude={"name", "teachers", "head_start"}))
    return {**values, "extra": {}}


def _adapters(run: Recipe, given: Any, new: list[str], name: str) -> dict[str, Any] | None:
    """Return `[adapters]` of the grown run: those of the run's tasks, and those of the new ones."""
    if given is None:
        return _without_own(run)
    section = _read(given, name)
    strangers = [task for task in section.tasks if task not in new]
    if strangers:
        raise RecipeError(
            f"{name}: adapters.tasks: names '{strangers[0]}', which is not a new task: adapters of the run stay.",
            hint=f"Name some of: {', '.join(new)}.",
        )
    named = section.tasks or tuple(new)
    own = run.adapters
    if own is None:
        return _values(section, named)
    if not own.per_task or not section.per_task:
        raise RecipeError(
            f"{name}: adapters: an adapter that tasks share cannot be trained for some of them alone.",
            hint="Leave adapters out: the new tasks then have heads alone, above the encoder and the shared adapter.",
        )
    if section.name != own.name or (section.options and section.options != own.options):
        raise RecipeError(
            f"{name}: adapters: all adapters of a model are of one kind, and those of the run are {_shown(own)}; "
            f"found {_shown(section)}.",
            hint=f'Write adapters = "{own.name}", or leave adapters out, for heads alone.',
        )
    return _values(own, (*(own.tasks or run.tasks), *named))


def _without_own(run: Recipe) -> dict[str, Any] | None:
    """Return the run's adapters where new tasks have none; one that all its tasks share is part of what they see."""
    own = run.adapters
    if own is None:
        return None
    shared = not own.per_task and not own.tasks
    return _values(own, () if shared else own.tasks or tuple(run.tasks))


def _values(section: AdapterSection, tasks: tuple[str, ...]) -> dict[str, Any]:
    """Return a section with other tasks as a recipe's values."""
    values: dict[str, Any] = plain(section.model_copy(update={"tasks": tasks}))
    return values


def _read(given: Any, name: str) -> AdapterSection:
    try:
        found = Recipe.model_validate({"adapters": given, "tasks": {}}, context={"partial": True}).adapters
    except ValidationError as error:
        raise RecipeError(f"{name}: {'; '.join(explain(error.errors()))}") from None
    assert found is not None
    return found


def _shown(section: AdapterSection) -> str:
    options = ", ".join(f"{key} {value}" for key, value in section.options.items())
    return f"'{section.name}'" + (f" ({options})" if options else "")


def _shaped(recipe: Recipe, new: Mapping[str, Any]) -> Recipe:
    """Give new tasks that say nothing about their shape the one for an encoder that is not trained."""
    tasks = dict(recipe.tasks)
    for name in new:
        task = tasks[name]
        if not any(key in task.model_fields_set for key in SHAPE):
            tasks[name] = task.model_copy(update=SINGLE if task.kind == "single" else PAIR)
    return recipe.model_copy(update={"tasks": tasks})
