"""The trainer of a recipe: sampler, feed, objectives, gradient method, optimizer, schedule."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

import torch

from palbert.build.data import sets_of_stage
from palbert.build.gradients import make_gradients
from palbert.build.machine import Machine
from palbert.build.model import check_tasks, set_trained
from palbert.build.named import function_of, make
from palbert.build.splitting import find_trunk
from palbert.data.dataset import Dataset
from palbert.data.tokenizer import Template, TextTokenizer
from palbert.data.training_set import TrainingSet
from palbert.errors import RecipeError
from palbert.gradients.split import Trunk
from palbert.inference.evaluator import Inference, evaluate_tasks
from palbert.metrics import overall
from palbert.model.multitask import MultiTaskModel
from palbert.objectives import Goal, Term
from palbert.objectives.balance import Balance
from palbert.objectives.distillation import Distillation
from palbert.objectives.logit_adjustment import adjusted
from palbert.objectives.objective import Objective
from palbert.objectives.objectives import Objectives
from palbert.objectives.supervised import Supervised, smoothed
from palbert.recipe.schema import Recipe
from palbert.registry import AVERAGES, BALANCES, LOSSES, OBJECTIVES, SAMPLERS, SCHEDULES
from palbert.runtime.distributed import Ranks
from palbert.tasks.choices import Component
from palbert.training.averaging import Average
from palbert.training.buckets import Buckets
from palbert.training.execution import Eager, Execution, Graphs
from palbert.training.feed import Feed, Sets
from palbert.training.loss_scale import DynamicScale, LossScale, NoScale
from palbert.training.optimizer import make_optimizer
from palbert.training.samplers import Sampler, Settings
from palbert.training.trainer import Evaluate, Evaluation, Trainer

log = logging.getLogger(__name__)


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
    return "factors" in inspect.signature(SAMPLERS.find(sampler.name, "training.sampler")).parameters


def _with_factors(sampler: Component, factors: Mapping[str, float]) -> Component:
    """Give a sampler the factors of extra sets, under those that it names itself."""
    own = sampler.options.get("factors", {})
    if not factors or not takes_factors(sampler) or not isinstance(own, Mapping):  # which the sampler refuses
        return sampler
    return sampler.model_copy(update={"factors": {**factors, **own}})


def make_objectives(
    recipe: Recipe,
    train: Mapping[str, TrainingSet[Dataset]] | None = None,
    *,
    report: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Objectives:
    """Make the supervised losses, the terms added to them, and the balance between the tasks.

    Args:
        recipe: The recipe, or one stage of it.
        train: The training sets, whose class shares a prior is compared with; without them, priors are ignored.
        report: The context in which each term is made; it may keep the error of one that cannot be made.
    """
    sets = recipe.sets
    losses = {
        name: smoothed(function_of(LOSSES, spec.task.loss), spec.task.label_smoothing) for name, spec in sets.items()
    }
    for name, each in (train or {}).items():
        labels = each.rows.labels
        if name in losses and sets[name].task.prior and labels is not None:
            task = sets[name].task
            losses[name] = adjusted(losses[name], labels, task.prior, outputs=task.outputs, name=name)
    goals = {name: Goal.of(spec, losses[name]) for name, spec in sets.items()}
    terms: list[Term] = []
    for number in range(len(recipe.objectives)):
        with report():
            terms.append(_make_term(recipe, number, goals))
    taught = [name for term in terms if isinstance(term, Distillation) for name in term.goals]
    if len(set(taught)) < len(taught):
        raise RecipeError(
            "objectives: two distillations of one task.", hint="A task has one, with all of its teachers."
        )
    balance: Balance = make(BALANCES, recipe.training.balance, "training.balance", goals)
    return Objectives(Supervised(losses), terms, balance=balance)


def _make_term(recipe: Recipe, number: int, goals: Mapping[str, Goal]) -> Term:
    """Make one of the recipe's objectives, for the sets that it takes."""
    section, place = recipe.objectives[number], f"objectives.{number}"
    check_tasks(recipe.tasks, section, place)
    triplets = OBJECTIVES.find(section.name, place).triplets
    chosen = {
        name: goals[name]
        for name, spec in recipe.sets.items()
        if spec.task.name in (section.tasks or recipe.tasks) and spec.triplets == triplets
    }
    term: Term = make(OBJECTIVES, section, place, chosen)
    return term


def make_average(recipe: Recipe, model: MultiTaskModel) -> Average:
    """Make the average of a model's weights, which is evaluated and kept."""
    average: Average = make(AVERAGES, recipe.training.average, "training.average", model)
    return average


def build_trainer(
    recipe: Recipe,
    model: MultiTaskModel,
    *,
    tokenizer: TextTokenizer,
    machine: Machine,
    train: Mapping[str, TrainingSet[Dataset]],
    evaluate: Evaluate,
    sampler: Sampler | None = None,
    epochs: range | None = None,
    ranks: Ranks | None = None,
) -> Trainer:
    """Put a trainer together, without hooks.

    Args:
        recipe: The recipe, or the stage of it that one phase is.
        model: The model; which of its parts learn is set here.
        tokenizer: Says which special tokens go around texts.
        machine: Where to compute.
        train: The training sets by name; those of other stages are left out.
        evaluate: Scores the model after each epoch.
        sampler: That of the whole run, if the recipe is a stage of one.
        epochs: Which of that sampler's epochs are the stage's.
        ranks: The processes that train together.
    """
    training = recipe.training
    set_trained(model, recipe)
    sets = sets_of_stage(recipe, train)
    objective = make_objectives(recipe, sets)
    objective.prepare(model)
    trained = [value for part in (model, objective) for value in part.parameters() if value.requires_grad]
    sampler = sampler or make_sampler(recipe, rows={name: len(each) for name, each in sets.items()})
    processes = ranks.size if ranks else 1

    def trunk(tasks: int) -> Trunk | None:
        tokens = _tokens_of_all(sets, tokenizer.template)
        return find_trunk(model, objective, machine, tokens=tokens, tasks=tasks, processes=processes)

    gradients = make_gradients(
        recipe,
        parameters=trained,
        plans=(sampler.epoch(epoch) for epoch in epochs or range(1, sampler.epochs + 1)),
        find_trunk=trunk,
        ranks=ranks,
    )
    return Trainer(
        model,
        sampler=sampler,
        feed=Feed(
            sets,
            seed=recipe.seed,
            template=tokenizer.template,
            device=machine.device,
            accumulation=training.accumulation,
            separate=gradients.separate,
            ranks=ranks,
            buckets=make_buckets(sets, tokenizer.template, machine.device, ranks),
        ),
        objective=objective,
        gradients=gradients,
        optimizer=_make_optimizer(recipe, model, objective),
        schedule=make(SCHEDULES, recipe.optimizer.schedule, "optimizer.schedule"),
        clip=training.clip,
        average=make_average(recipe, model),
        arithmetic=machine.arithmetic,
        evaluate=evaluate,
        epochs=epochs,
        ranks=ranks,
        execution=make_execution(recipe, machine.device, ranks),
        scale=make_scale(objective, machine),
    )


def make_execution(recipe: Recipe, device: torch.device, ranks: Ranks | None = None) -> Execution:
    """Choose how steps are computed: as CUDA graphs on CUDA, in one process, unless the recipe turns it off."""
    if device.type != "cuda" or recipe.run.capture == "off":
        return Eager(device)
    if ranks and ranks.size > 1:
        log.info("steps are not captured as CUDA graphs: %d processes train together", ranks.size)
        return Eager(device)
    return Graphs(device)


def make_scale(objective: Objective, machine: Machine) -> LossScale:
    """Make the scale of the losses; a dynamic one becomes part of the objective, whose state checkpoints keep."""
    if machine.precision != "fp16":
        return NoScale()
    scale = DynamicScale().to(machine.device)
    objective.add_module("scale", scale)
    return scale


def make_buckets(
    sets: Sets, template: Template, device: torch.device, ranks: Ranks | None = None
) -> dict[str, Buckets] | None:
    """Choose the sizes of every set's batches from the lengths of its rows; None if steps cannot be captured.

    On CUDA, batches are filled up even if capturing is turned off, so that the results are the same.
    """
    if device.type != "cuda" or (ranks and ranks.size > 1):
        return None
    return choose_buckets(sets, template)


def choose_buckets(sets: Sets, template: Template) -> dict[str, Buckets]:
    """Choose the sizes of every set's batches from the lengths of its rows."""
    buckets = {}
    for name, each in sets.items():
        lengths = each.sequence_lengths(template)
        buckets[name] = Buckets(lengths.sum(axis=0), longest=int(lengths.max()))
    return buckets


def _tokens_of_all(sets: Sets, template: Template) -> float:
    """Return the tokens of a step with a batch of every set, on average."""
    return sum(each.batch_size * float(each.sequence_lengths(template).sum(axis=0).mean()) for each in sets.values())


def _make_optimizer(recipe: Recipe, model: MultiTaskModel, objective: Objectives) -> torch.optim.AdamW:
    rates = recipe.optimizer
    return make_optimizer(
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
    )


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
