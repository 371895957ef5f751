"""The trainer of a recipe: sampler, feed, objectives, gradient method, optimizer, schedule."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence

import torch

from palbert.build.machine import Machine, build_inference
from palbert.build.model import check_tasks
from palbert.build.named import find, function_of, make
from palbert.data.dataset import Dataset
from palbert.data.streams import Stream
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import PalbertError, RecipeError
from palbert.evaluation.evaluator import evaluate_tasks
from palbert.evaluation.metrics import overall
from palbert.gradients import GradientMethod
from palbert.gradients.methods import GRADIENTS
from palbert.gradients.weighted import Weighted
from palbert.model.multitask import MultiTaskModel
from palbert.objectives import Goal, Term
from palbert.objectives.balance import BALANCES, Balance
from palbert.objectives.objectives import OBJECTIVES, Objectives
from palbert.objectives.supervised import LOSSES, Supervised, smoothed
from palbert.recipe.schema import Recipe
from palbert.training.averaging import AVERAGES, NoAverage
from palbert.training.feed import Feed, TaskFeed
from palbert.training.optimizer import make_optimizer
from palbert.training.samplers import SAMPLERS, Sampler
from palbert.training.schedule import SCHEDULES
from palbert.training.trainer import Evaluation, Trainer


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


def make_objectives(recipe: Recipe) -> Objectives:
    """Make the supervised losses, the terms beside them, and the balance between the tasks."""
    losses = {
        name: smoothed(function_of(LOSSES, task.loss), task.label_smoothing) for name, task in recipe.tasks.items()
    }
    goals = {name: Goal.of(task, losses[name]) for name, task in recipe.tasks.items()}
    terms = []
    for number, section in enumerate(recipe.objectives):
        place = f"objectives.{number}"
        check_tasks(recipe.tasks, section, place)
        chosen = {name: goals[name] for name in section.tasks or goals}
        terms.append(make(OBJECTIVES, section, place, chosen))
        if not isinstance(terms[-1], Term):
            raise RecipeError(
                f"{place}: '{section.name}' is no objective.", hint="Derive its class from palbert.objectives.Term."
            )
    balance = make(BALANCES, recipe.training.balance, "training.balance", goals)
    if not isinstance(balance, Balance):
        raise RecipeError(
            f"training.balance: '{recipe.training.balance.name}' is no balance.",
            hint="Derive its class from palbert.objectives.balance.Balance.",
        )
    return Objectives(Supervised(losses), terms, balance=balance)


def make_gradients(recipe: Recipe, *, parameters: Sequence[torch.Tensor]) -> GradientMethod:
    """Make the gradient method; refuse one that cannot do anything with the recipe."""
    training, place = recipe.training, "training.gradients"
    cls = find(GRADIENTS, training.gradients.name)
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


def make_average(recipe: Recipe, model: MultiTaskModel) -> NoAverage:
    """Make the average of a model's weights that is to be evaluated."""
    section = recipe.training.average
    average = make(AVERAGES, section, "training.average", model)
    if not isinstance(average, NoAverage):
        raise RecipeError(
            f"training.average: '{section.name}' is no average.",
            hint="Derive its class from palbert.training.averaging.NoAverage.",
        )
    return average


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
    objective = make_objectives(recipe)
    objective.prepare(model)
    trained = [value for part in (model, objective) for value in part.parameters() if value.requires_grad]
    sampler = make_sampler(recipe, rows={name: len(dataset) for name, dataset in train.items()})
    gradients = make_gradients(recipe, parameters=trained)
    if isinstance(gradients, Weighted):
        gradients.check_plans(sampler.epoch(epoch) for epoch in range(1, sampler.epochs + 1))
    average = make_average(recipe, model)
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
        objective=objective,
        gradients=gradients,
        optimizer=make_optimizer(
            [*model.roles(), ("objectives", objective)],
            learning_rates={
                "encoder": rates.learning_rate,
                "adapters": rates.adapter_learning_rate or rates.learning_rate,
                "heads": rates.head_learning_rate or rates.learning_rate,
                "objectives": rates.head_learning_rate or rates.learning_rate,
            },
            parts=model.encoder_parts(),
            layer_decay=rates.layer_decay,
            weight_decay=rates.weight_decay,
            betas=rates.betas,
            epsilon=rates.epsilon,
        ),
        schedule=make(SCHEDULES, rates.schedule, "optimizer.schedule"),
        clip=training.clip,
        average=average,
        arithmetic=machine.arithmetic,
        evaluate=functools.partial(evaluate_now, average, recipe, dev, tokenizer=tokenizer, machine=machine),
    )


def evaluate_now(
    average: NoAverage,
    recipe: Recipe,
    datasets: Mapping[str, Dataset],
    *,
    tokenizer: TextTokenizer,
    machine: Machine,
    epoch: int,
    step: int,
) -> Evaluation:
    """Score all tasks, and overall by the recipe's formula."""
    inference = build_inference(average.model, tokenizer=tokenizer, machine=machine)
    results = evaluate_tasks(inference, recipe.tasks, datasets)
    main = {result.task: (result.metric, result.scores[result.metric]) for result in results}
    return Evaluation(
        epoch=epoch,
        step=step,
        overall=overall(main, recipe.overall),
        tasks={result.task: result.scores for result in results},
    )
