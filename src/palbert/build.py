"""Build: the only file where a recipe meets classes."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from palbert.data.dataset import Dataset, Split, load_dataset
from palbert.data.streams import Stream
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import MissingExtraError, PalbertError, RecipeError, did_you_mean
from palbert.evaluation.evaluator import Inference, evaluate_tasks
from palbert.evaluation.metrics import find_metric, formula_text, overall
from palbert.gradients import GradientMethod
from palbert.gradients.methods import GRADIENTS
from palbert.gradients.weighted import Weighted
from palbert.model.adapters import ADAPTERS, Adapter
from palbert.model.encoder import Encoder
from palbert.model.heads import HEADS
from palbert.model.multitask import MultiTaskModel
from palbert.model.pooling import POOLINGS
from palbert.model.pretrained import load_encoder
from palbert.model.relational import RELATIONS
from palbert.objectives.supervised import LOSSES, Supervised
from palbert.recipe.schema import AdapterSection, Recipe, RelationSection
from palbert.runtime.precision import Precision, arithmetic, choose_device, choose_precision
from palbert.tasks.choices import Component
from palbert.tasks.spec import Task
from palbert.training.feed import Feed, TaskFeed
from palbert.training.optimizer import make_optimizer
from palbert.training.samplers import SAMPLERS, Sampler
from palbert.training.schedule import SCHEDULES
from palbert.training.trainer import Evaluation, Trainer


@dataclass(frozen=True)
class Machine:
    """Where a run computes, and how exactly."""

    device: torch.device
    precision: Precision

    @classmethod
    def for_recipe(cls, recipe: Recipe) -> Machine:
        """Choose what the recipe asks for."""
        device = choose_device(recipe.run.device)
        return cls(device, choose_precision(recipe.run.precision, device))

    def arithmetic(self) -> Any:
        """Return the context that forward passes run in."""
        return arithmetic(self.precision, self.device)


def check_names(recipe: Recipe) -> None:
    """Refuse metrics, losses, heads and options that do not exist, before anything is loaded."""
    _check_tasks(recipe.tasks, recipe.adapters, "adapters")
    _check_tasks(recipe.tasks, recipe.relation, "relation")
    if recipe.adapters:
        _check_options(
            _find(ADAPTERS, recipe.adapters.name), (8,), {"layers": 1, **recipe.adapters.options}, "adapters"
        )
    if recipe.relation:
        _check_options(_find(RELATIONS, recipe.relation.name), (8,), recipe.relation.options, "relation")
        inputs = {(task.kind, task.siamese) for name, task in recipe.tasks.items() if name in recipe.relation.tasks}
        if len(inputs) > 1:
            raise RecipeError(
                "relation.tasks: these tasks give vectors of different kinds (single, joint or siamese).",
                hint="Share the layer among tasks with one kind of input.",
            )
    for task in recipe.tasks.values():
        for metric in task.metrics:
            try:
                find_metric(metric, target=task.target)
            except PalbertError as error:
                raise RecipeError(f"tasks.{task.name}.metrics: {error.message}", hint=error.hint) from None
        head_options(task, hidden_size=8)
    make_sampler(recipe, rows=dict.fromkeys(recipe.tasks, 1))
    make(SCHEDULES, recipe.optimizer.schedule, "optimizer.schedule")
    make_gradients(recipe, parameters=[])
    formula_text({name: task.metric for name, task in recipe.tasks.items()}, recipe.overall)


def load_datasets(recipe: Recipe, split: Split, tokenizer: TextTokenizer) -> dict[str, Dataset]:
    """Read one split of every task that has files for it."""
    return {name: load_dataset(task, split, tokenizer) for name, task in recipe.tasks.items() if getattr(task, split)}


def check_lengths(tasks: Mapping[str, Task], tokenizer: TextTokenizer) -> None:
    """Refuse sequences that would have no room for text between their special tokens."""
    for name, task in tasks.items():
        joint = task.kind == "pair" and not task.siamese
        special = tokenizer.template.pair + 1 if joint else tokenizer.template.single
        if task.max_length <= special:
            raise RecipeError(
                f"tasks.{name}.max_length: {task.max_length} leaves no room for text; take at least {special + 1}."
            )


def build_encoder(recipe: Recipe, folder: Path) -> Encoder:
    """Load the pretrained encoder with the recipe's dropout."""
    section = recipe.encoder
    encoder = load_encoder(folder, dropout=section.dropout, attention_dropout=section.attention_dropout)
    encoder.requires_grad_(not section.frozen)
    return encoder


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
        if task.pooling == "pooler" and not config.pooler:
            raise RecipeError(
                f"tasks.{name}.pooling: 'pooler' needs an encoder with a pooler; this {config.family} has none.",
                hint="Take 'cls' or 'mean'.",
            )
        if task.max_length > config.max_length:
            raise RecipeError(
                f"tasks.{name}.max_length: {task.max_length} is more than the encoder's {config.max_length}."
            )
    heads = {}
    for name, task in tasks.items():
        cls, options = head_options(task, hidden_size=config.hidden_size)
        heads[name] = cls(config.hidden_size, **options)
        if not isinstance(heads[name], torch.nn.Module):
            raise RecipeError(f"tasks.{name}.head: '{task.head.name}' is no torch.nn.Module.")
    poolings = {name: _function(POOLINGS, task.pooling) for name, task in tasks.items()}
    return MultiTaskModel(
        encoder,
        heads=heads,
        poolings=poolings,
        adapters=_build_adapters(tasks, encoder, adapters),
        relation=make(RELATIONS, relation, "relation", config.hidden_size) if relation else None,
        related=relation.tasks if relation else (),
    )


def _check_tasks(tasks: Mapping[str, Task], section: AdapterSection | RelationSection | None, place: str) -> None:
    for name in section.tasks if section else ():
        if name not in tasks:
            raise RecipeError(f"{place}.tasks: unknown task '{name}'.", hint=did_you_mean(name, tasks))


def _build_adapters(tasks: Mapping[str, Task], encoder: Encoder, section: AdapterSection | None) -> dict[str, Adapter]:
    if section is None:
        return {}
    config = encoder.config
    named = section.tasks or tuple(tasks)

    def new() -> Adapter:
        adapter = make(ADAPTERS, section, "adapters", config.hidden_size, layers=config.layers)
        if not isinstance(adapter, Adapter):
            raise RecipeError(
                f"adapters: '{section.name}' is no adapter.",
                hint="Derive its class from palbert.model.adapters.Adapter.",
            )
        return adapter

    if section.per_task:
        return {name: new() for name in named}
    return dict.fromkeys(named, new())


def head_options(task: Task, *, hidden_size: int) -> tuple[Any, dict[str, Any]]:
    """Return the class of a task's head and its keyword arguments."""
    cls = _find(HEADS, task.head.name)
    options: dict[str, Any] = {"outputs": task.outputs, "dropout": task.dropout}
    if task.head.name == "cosine" and task.range:
        options["scale"] = task.range[1]
    options.update(task.head.options)
    _check_options(cls, (hidden_size,), options, f"tasks.{task.name}.head")
    return cls, options


def make_sampler(recipe: Recipe, *, rows: Mapping[str, int]) -> Sampler:
    """Make the sampler for sets of these sizes."""
    training = recipe.training
    sampler = make(
        SAMPLERS,
        training.sampler,
        "training.sampler",
        rows,
        batch_sizes={name: recipe.batch_size(task) for name, task in recipe.tasks.items()},
        epochs=training.epochs,
        steps=training.steps_per_epoch,
        seed=recipe.seed,
    )
    if not isinstance(sampler, Sampler):
        raise RecipeError(
            f"training.sampler: '{training.sampler.name}' is no sampler.",
            hint="Derive its class from palbert.training.samplers.Sampler.",
        )
    return sampler


def make_gradients(recipe: Recipe, *, parameters: Sequence[torch.Tensor]) -> GradientMethod:
    """Make the gradient method; refuse one that cannot do anything with the recipe."""
    training, place = recipe.training, "training.gradients"
    cls = _find(GRADIENTS, training.gradients.name)
    offered = {"parameters": parameters} if "parameters" in inspect.signature(cls).parameters else {}
    weights = {name: task.weight for name, task in recipe.tasks.items()}
    try:
        method: GradientMethod = make(GRADIENTS, training.gradients, place, weights, **offered)
        if isinstance(method, Weighted):
            method.check(accumulation=training.accumulation)
    except PalbertError:
        raise
    except (TypeError, ValueError) as error:
        raise RecipeError(f"{place}: {error}") from error
    return method


def build_trainer(
    recipe: Recipe,
    model: MultiTaskModel,
    *,
    tokenizer: TextTokenizer,
    machine: Machine,
    train: Mapping[str, Dataset],
    dev: Mapping[str, Dataset],
) -> Trainer:
    """Put a trainer together, without hooks."""
    training, rates = recipe.training, recipe.optimizer
    feeds = {
        name: TaskFeed(
            dataset=train[name],
            stream=Stream(name, rows=len(train[name]), batch_size=recipe.batch_size(task), seed=recipe.seed),
            max_length=task.max_length,
            siamese=task.siamese,
        )
        for name, task in recipe.tasks.items()
    }
    losses = {name: _function(LOSSES, task.loss) for name, task in recipe.tasks.items()}
    sampler = make_sampler(recipe, rows={name: len(dataset) for name, dataset in train.items()})
    gradients = make_gradients(recipe, parameters=[value for value in model.parameters() if value.requires_grad])
    if isinstance(gradients, Weighted):
        gradients.check_plans(sampler.epoch(epoch) for epoch in range(1, sampler.epochs + 1))
    return Trainer(
        model,
        sampler=sampler,
        feed=Feed(
            feeds,
            template=tokenizer.template,
            device=machine.device,
            accumulation=training.accumulation,
            separate=getattr(gradients, "separate", False),
        ),
        objective=Supervised(losses),
        gradients=gradients,
        optimizer=make_optimizer(
            model.roles(),
            learning_rates={
                "encoder": rates.learning_rate,
                "adapters": rates.adapter_learning_rate or rates.learning_rate,
                "heads": rates.head_learning_rate or rates.learning_rate,
            },
            parts=model.encoder_parts(),
            layer_decay=rates.layer_decay,
            weight_decay=rates.weight_decay,
            betas=rates.betas,
            epsilon=rates.epsilon,
        ),
        schedule=make(SCHEDULES, rates.schedule, "optimizer.schedule"),
        clip=training.clip,
        arithmetic=machine.arithmetic,
        evaluate=functools.partial(
            evaluate_now, build_inference(model, tokenizer=tokenizer, machine=machine), recipe, dev
        ),
    )


def build_inference(model: MultiTaskModel, *, tokenizer: TextTokenizer, machine: Machine) -> Inference:
    """Make a model ready to answer."""
    return Inference(model, template=tokenizer.template, device=machine.device, arithmetic=machine.arithmetic)


def evaluate_now(
    inference: Inference, recipe: Recipe, datasets: Mapping[str, Dataset], *, epoch: int, step: int
) -> Evaluation:
    """Score all tasks, and overall by the recipe's formula."""
    results = evaluate_tasks(inference, recipe.tasks, datasets)
    main = {result.task: (result.metric, result.scores[result.metric]) for result in results}
    return Evaluation(
        epoch=epoch,
        step=step,
        overall=overall(main, recipe.overall),
        tasks={result.task: result.scores for result in results},
    )


def make(table: Mapping[str, Any], component: Component, place: str, *arguments: Any, **settings: Any) -> Any:
    """Make a named part: from a table, or from "module:Class", with the recipe's options."""
    cls = _find(table, component.name)
    settings.update(component.options)
    _check_options(cls, arguments, settings, place)
    try:
        return cls(*arguments, **settings)
    except MissingExtraError:  # no fault of the recipe
        raise
    except PalbertError as error:
        raise RecipeError(f"{place}: {error.message}", hint=error.hint) from None


def _find(table: Mapping[str, Any], name: str) -> Any:
    return table[name] if name in table else _own(name)


def _function(table: Mapping[str, Any], name: str) -> Any:
    """Return a part that is called as it is; of a class, an instance is made first."""
    found = _find(table, name)
    return found() if isinstance(found, type) else found


def _own(name: str) -> Any:
    """Import a user's "module:Class"."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a user's module may fail in any way
        raise RecipeError(
            f"'{name}' cannot be imported: {type(error).__name__}: {error}.",
            hint="Is its folder on PYTHONPATH, and is the name right?",
        ) from error


def _check_options(cls: Any, arguments: tuple[Any, ...], options: dict[str, Any], place: str) -> None:
    signature = inspect.signature(cls)
    try:
        signature.bind(*arguments, **options)
    except TypeError as error:
        known = [name for name in signature.parameters if name not in ("self", "settings")]
        unknown = [name for name in options if name not in known]
        hint = did_you_mean(unknown[0], known) if unknown else None
        raise RecipeError(f"{place}: {error}.", hint=hint) from error
