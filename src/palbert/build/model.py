"""The model of a recipe: encoder, adapters, relational layer, poolings and heads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palbert.build.named import check_options, make
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import RecipeError, did_you_mean
from palbert.model.adapters import Adapter
from palbert.model.encoder import Encoder
from palbert.model.mixout import mix_out
from palbert.model.multitask import MultiTaskModel
from palbert.model.pooling import Pooling
from palbert.model.pretrained import load_encoder
from palbert.model.recompute import recompute_activations
from palbert.recipe.schema import Recipe
from palbert.recipe.sections import AdapterSection, ObjectiveSection, RelationSection
from palbert.registry import ADAPTERS, HEADS, POOLINGS, RELATIONS
from palbert.tasks.choices import Component
from palbert.tasks.sets import SetSpec, sets_of
from palbert.tasks.spec import Task


def check_lengths(sets: Mapping[str, SetSpec], tokenizer: TextTokenizer) -> None:
    """Refuse sequences that would have no room for text between their special tokens."""
    for spec in sets.values():
        special = tokenizer.template.pair + 1 if spec.joint else tokenizer.template.single
        if spec.max_length <= special:
            raise RecipeError(
                f"{spec.place}.max_length: {spec.max_length} leaves no room for text; take at least {special + 1}."
            )


def build_encoder(recipe: Recipe, folder: Path) -> Encoder:
    """Load the pretrained encoder with the recipe's dropout and mixout, and its way to save memory."""
    section = recipe.encoder
    encoder = load_encoder(folder, dropout=section.dropout, attention_dropout=section.attention_dropout)
    if section.mixout:
        mix_out(encoder, section.mixout)
    if section.recompute:
        encoder.run_layer = recompute_activations
    return encoder


def set_trained(model: MultiTaskModel, recipe: Recipe) -> None:
    """Let the parts learn that the recipe trains, and no others."""
    trained = set(recipe.training.trains or ("encoder", "adapters", "heads"))
    if recipe.encoder.frozen:
        trained.discard("encoder")
    for role, module in model.roles():
        module.requires_grad_(role in trained)


def build_model(
    tasks: Mapping[str, Task],
    encoder: Encoder,
    *,
    adapters: AdapterSection | None = None,
    relation: RelationSection | None = None,
) -> MultiTaskModel:
    """Put new adapters into an encoder, and each task's pooling and a new head on it."""
    config = encoder.config
    for name, task in tasks.items():
        if find_pooling(task).through_pooler and not config.pooler:
            raise RecipeError(
                f"tasks.{name}.pooling: '{task.pooling.name}' needs an encoder with a pooler; "
                f"this {config.family} has none.",
                hint="Take 'cls' or 'mean'.",
            )
        for spec in sets_of(task).values():
            if spec.max_length > config.max_length:
                raise RecipeError(
                    f"{spec.place}.max_length: {spec.max_length} is more than the encoder's {config.max_length}."
                )
    heads = {name: make_head(task, hidden_size=config.hidden_size) for name, task in tasks.items()}
    poolings = {name: make_pooling(task, hidden_size=config.hidden_size) for name, task in tasks.items()}
    return MultiTaskModel(
        encoder,
        heads=heads,
        poolings=poolings,
        adapters=_build_adapters(tasks, encoder, adapters),
        relation=make(RELATIONS, relation, "relation", config.hidden_size) if relation else None,
        related=relation.tasks if relation else (),
    )


def check_tasks(
    tasks: Mapping[str, Task], section: AdapterSection | RelationSection | ObjectiveSection | None, place: str
) -> None:
    """Refuse a section that names a task that is not there."""
    for name in section.tasks if section else ():
        if name not in tasks:
            raise RecipeError(f"{place}.tasks: unknown task '{name}'.", hint=did_you_mean(name, tasks))


def _build_adapters(tasks: Mapping[str, Task], encoder: Encoder, section: AdapterSection | None) -> dict[str, Adapter]:
    if section is None:
        return {}
    config = encoder.config
    named = section.tasks or tuple(tasks)

    def new() -> Adapter:
        adapter: Adapter = make(ADAPTERS, section, "adapters", config.hidden_size, layers=config.layers)
        return adapter

    if section.per_task:
        return {name: new() for name in named}
    return dict.fromkeys(named, new())


def make_head(task: Task, *, hidden_size: int) -> Any:
    """Make a task's head, with new weights."""
    return make(HEADS, _head_of(task), f"tasks.{task.name}.head", hidden_size, outputs=task.outputs)


def find_pooling(task: Task) -> type[Pooling]:
    """Return the class of a task's pooling."""
    found: type[Pooling] = POOLINGS.find(task.pooling.name, f"tasks.{task.name}.pooling")
    return found


def make_pooling(task: Task, *, hidden_size: int) -> Pooling:
    """Make a task's pooling, with new weights."""
    pooling: Pooling = make(POOLINGS, task.pooling, f"tasks.{task.name}.pooling", hidden_size)
    return pooling


def check_pooling(task: Task) -> None:
    """Refuse a pooling's options; a user's own class is not made yet, since it may not take every size."""
    if task.pooling.name in POOLINGS:
        make_pooling(task, hidden_size=8)
    else:
        check_options(find_pooling(task), (8,), {}, task.pooling.options, f"tasks.{task.name}.pooling")


def check_head(task: Task) -> None:
    """Refuse a head's options; a user's own class is not made yet, since it may not take every size."""
    head = _head_of(task)
    if head.name in HEADS:
        make_head(task, hidden_size=8)
    else:
        own = HEADS.find(head.name, f"tasks.{task.name}.head")
        check_options(own, (8,), {"outputs": task.outputs}, head.options, f"tasks.{task.name}.head")


def _head_of(task: Task) -> Component:
    """Return a task's head with the task's dropout, and its highest label for a cosine, unless it has its own."""
    options: dict[str, Any] = {"dropout": task.dropout}
    if task.head.name == "cosine" and task.range:
        options["scale"] = task.range[1]
    return task.head.model_copy(update={**options, **task.head.options})
