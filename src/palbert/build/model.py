"""The model of a recipe: encoder, adapters, relational layer, poolings and heads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palbert.build.named import check, make
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import RecipeError, did_you_mean
from palbert.model.adapters import Adapter
from palbert.model.config import EncoderConfig
from palbert.model.encoder import Encoder
from palbert.model.heads import Head
from palbert.model.mixout import mix_out
from palbert.model.multitask import MultiTaskModel
from palbert.model.pooling import Pooling
from palbert.model.pretrained import load_encoder
from palbert.model.recompute import recompute_activations
from palbert.options import takes
from palbert.recipe.schema import Recipe
from palbert.recipe.sections import AdapterSection, ObjectiveSection, RelationSection
from palbert.registry import ADAPTERS, HEADS, POOLINGS, RELATIONS, TARGETS
from palbert.tasks.choices import Component
from palbert.tasks.sets import SetSpec, sets_of
from palbert.tasks.spec import Task

CHECKED_SIZE = 8
"""The hidden size with which parts are made to check their options, before there is an encoder."""
COUNTS = {1: "one vector", 2: "two vectors"}
"""How messages count the vectors of an example."""


def check_lengths(sets: Mapping[str, SetSpec], tokenizer: TextTokenizer) -> None:
    """Refuse sequences without room for text between their special tokens."""
    for spec in sets.values():
        special = tokenizer.template.pair + 1 if spec.joint else tokenizer.template.single
        if spec.max_length <= special:
            raise RecipeError(
                f"{spec.place}.max_length: {spec.max_length} leaves no room for text; take at least {special + 1}."
            )


def build_encoder(recipe: Recipe, folder: Path) -> Encoder:
    """Load the pretrained encoder with the recipe's dropout, mixout and recomputation."""
    section = recipe.encoder
    encoder = load_encoder(folder, dropout=section.dropout, attention_dropout=section.attention_dropout)
    if section.mixout:
        mix_out(encoder, section.mixout)
    if section.recompute:
        encoder.run_layer = recompute_activations
    return encoder


def set_trained(model: MultiTaskModel, recipe: Recipe) -> None:
    """Make the parts trainable that the recipe, or one stage of it, trains for its tasks; freeze the others."""
    trained = set(recipe.training.trains or ("encoder", "adapters", "heads"))
    if recipe.encoder.frozen:
        trained.discard("encoder")
    for role, module in model.roles():
        module.requires_grad_(role in trained)
    for module in model.parts_of_others(recipe.tasks):
        module.requires_grad_(False)


def build_model(
    tasks: Mapping[str, Task],
    encoder: Encoder,
    *,
    adapters: AdapterSection | None = None,
    relation: RelationSection | None = None,
) -> MultiTaskModel:
    """Put new adapters into an encoder, and a pooling and a new head per task on top of it."""
    config = encoder.config
    for task in tasks.values():
        _check_pooler(task, config)
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


def _check_pooler(task: Task, config: EncoderConfig) -> None:
    place = f"tasks.{task.name}.pooling"
    if POOLINGS.find(task.pooling.name, place).through_pooler and not config.pooler:
        fitting = ", ".join(name for name in POOLINGS if not POOLINGS[name].through_pooler)
        raise RecipeError(
            f"{place}: '{task.pooling.name}' needs an encoder with a pooler; this {config.family} has none.",
            hint=f"Take one of: {fitting}.",
        )


def check_tasks(
    tasks: Mapping[str, Task], section: AdapterSection | RelationSection | ObjectiveSection | None, place: str
) -> None:
    """Refuse a section that names an unknown task."""
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


def make_head(task: Task, *, hidden_size: int) -> Head:
    """Make a task's head, with new weights."""
    head: Head = make(HEADS, _head_of(task), f"tasks.{task.name}.head", hidden_size, **_head_settings(task))
    return head


def check_head(task: Task) -> None:
    """Refuse a head that does not fit the task's input or target, and wrong options."""
    place = f"tasks.{task.name}.head"
    cls: type[Head] = HEADS.find(task.head.name, place)
    vectors = 2 if task.siamese else 1
    if cls.vectors != vectors:
        fitting = [name for name in HEADS if HEADS[name].vectors == vectors]
        siamese = "" if task.siamese else 'Set kind = "pair" and pair_input = "siamese", or take'
        raise RecipeError(
            f"{place}: '{task.head.name}' takes {COUNTS[cls.vectors]}, and this task gives {COUNTS[vectors]}.",
            hint=f"{siamese or 'Take'} one of: {', '.join(fitting)}. (A class of your own sets `vectors`.)",
        )
    if cls.targets and not isinstance(task.target, tuple(TARGETS.find(name) for name in cls.targets)):
        raise RecipeError(
            f"{place}: '{task.head.name}' is for target {' or '.join(cls.targets)}; this one is '{task.target.name}'."
        )
    if task.head_start == "probe" and not _starts_as_probe(task, cls):
        raise RecipeError(
            f'tasks.{task.name}.head_start: "probe" starts a head from mean vectors, one per text; '
            f"this task has pooling '{task.pooling.name}' and head '{task.head.name}'.",
            hint='Set pooling = "mean" and head = "linear"; for pairs pair_input = "siamese" and head = "compare".',
        )
    if task.head_start == "mean" and not (task.target.numeric and "mean" in cls.starts):
        raise RecipeError(
            f'tasks.{task.name}.head_start: "mean" is for numbers, and for heads with a bias; this task has target '
            f"'{task.target.name}' and head '{task.head.name}'.",
            hint='Set head_start = "random".',
        )
    check(HEADS, _head_of(task), place, CHECKED_SIZE, **_head_settings(task))


def _starts_as_probe(task: Task, head: type[Head]) -> bool:
    """Whether a task's head sees the vectors that a probe is fitted on."""
    return "probe" in head.starts and task.pooling.name == "mean" and task.siamese == (task.kind == "pair")


def _head_of(task: Task) -> Component:
    """Return a task's head with the task's dropout, if it takes one and has no other."""
    if not takes(HEADS.find(task.head.name, f"tasks.{task.name}.head"), "dropout"):
        return task.head
    return task.head.model_copy(update={"dropout": task.dropout, **task.head.options})


def _head_settings(task: Task) -> dict[str, Any]:
    """Return the arguments that palbert sets."""
    return {"outputs": task.outputs, "offered": {"label_range": task.range}}


def make_pooling(task: Task, *, hidden_size: int) -> Pooling:
    """Make a task's pooling, with new weights."""
    pooling: Pooling = make(POOLINGS, task.pooling, f"tasks.{task.name}.pooling", hidden_size)
    return pooling


def check_pooling(task: Task) -> None:
    """Refuse wrong options of a task's pooling."""
    check(POOLINGS, task.pooling, f"tasks.{task.name}.pooling", CHECKED_SIZE)
