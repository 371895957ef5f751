"""The trainer of a recipe: optimizer, execution and loss scale, and all other parts put together."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from palbert.build.data import sets_of_stage
from palbert.build.gradients import make_gradients
from palbert.build.machine import Machine
from palbert.build.model import set_trained
from palbert.build.named import make
from palbert.build.objectives import make_objectives
from palbert.build.sampling import make_buckets, make_sampler, tokens_per_step
from palbert.build.splitting import find_trunk
from palbert.data.dataset import Dataset
from palbert.data.tokenizer import Template
from palbert.data.training_set import TrainingSet
from palbert.gradients import GradientMethod
from palbert.gradients.split import Trunk
from palbert.inference.evaluator import Inference, evaluate_tasks
from palbert.metrics import overall
from palbert.model.multitask import MultiTaskModel
from palbert.objectives.objective import Objective
from palbert.objectives.objectives import Objectives, Reader, itself
from palbert.recipe.schema import Recipe
from palbert.registry import AVERAGES, SCHEDULES
from palbert.runtime.distributed import Ranks
from palbert.training.averaging import Average
from palbert.training.execution import Eager, Execution, Graphs
from palbert.training.feed import Feed, Sets
from palbert.training.loss_scale import DynamicScale, LossScale, NoScale
from palbert.training.non_finite import NonFinite, Skip, Stop
from palbert.training.optimizer import make_optimizer
from palbert.training.samplers import Sampler
from palbert.training.trainer import Evaluate, Evaluation, Scores, Trainer


def make_average(recipe: Recipe, model: MultiTaskModel) -> Average:
    """Make the average of a model's weights, which is evaluated and kept."""
    average: Average = make(AVERAGES, recipe.training.average, "training.average", model)
    return average


def build_trainer(
    recipe: Recipe,
    model: MultiTaskModel,
    *,
    template: Template,
    machine: Machine,
    train: Mapping[str, TrainingSet[Dataset]],
    evaluate: Evaluate,
    reader: Reader = itself,
    sampler: Sampler | None = None,
    epochs: range | None = None,
    ranks: Ranks | None = None,
) -> Trainer:
    """Put a trainer together, without hooks; set which parts of the model are trained.

    Args:
        recipe: The recipe, or one stage of it.
        model: The model.
        template: Puts special tokens around texts.
        machine: Where to compute.
        train: The training sets by name; those of other stages are left out.
        evaluate: Scores the model after each epoch, or within epochs.
        reader: What reads batches: the model, or its heads on stored states.
        sampler: That of the whole run, if the recipe is a stage of one.
        epochs: The stage's epochs among those of the sampler.
        ranks: The processes that train together.
    """
    sets, ranks = sets_of_stage(recipe, train), ranks or Ranks()
    objective = _make_objective(recipe, model, sets, reader, ranks)
    sampler = sampler or make_sampler(recipe, rows={name: len(each) for name, each in sets.items()})
    gradients = _make_gradients(recipe, model, objective, machine, sets, template, sampler, epochs, ranks)
    return Trainer(
        model,
        sampler=sampler,
        feed=_make_feed(recipe, sets, template, machine.device, separate=gradients.separate, ranks=ranks),
        objective=objective,
        gradients=gradients,
        optimizer=_make_optimizer(recipe, model, objective),
        schedule=make(SCHEDULES, recipe.optimizer.schedule, "optimizer.schedule"),
        clip=recipe.training.clip,
        average=make_average(recipe, model),
        arithmetic=machine.arithmetic,
        evaluate=evaluate,
        epochs=epochs,
        ranks=ranks,
        execution=make_execution(recipe, machine.device),
        scale=make_scale(objective, machine),
        evaluate_every=recipe.training.evaluate_every,
        non_finite=make_non_finite(recipe),
    )


def _make_objective(
    recipe: Recipe, model: MultiTaskModel, sets: Mapping[str, TrainingSet[Dataset]], reader: Reader, ranks: Ranks
) -> Objectives:
    """Make the objectives of these sets, prepared for the model, once it is set which of its parts are trained."""
    set_trained(model, recipe)
    objective = make_objectives(recipe, sets)
    objective.reader = reader
    objective.prepare(model)
    if recipe.training.accumulation == 1:  # otherwise processes may have different numbers of batches in a step
        objective.join(ranks)
    return objective


def _make_gradients(
    recipe: Recipe,
    model: MultiTaskModel,
    objective: Objectives,
    machine: Machine,
    sets: Sets,
    template: Template,
    sampler: Sampler,
    epochs: range | None,
    ranks: Ranks,
) -> GradientMethod:
    """Make the gradient method for everything that is trained."""

    def trunk(tasks: int) -> Trunk | None:
        tokens = tokens_per_step(sets, template)
        return find_trunk(model, objective, machine, tokens=tokens, tasks=tasks, processes=ranks.size)

    plans = map(sampler.epoch, epochs or range(1, sampler.epochs + 1))
    trained = [value for part in (model, objective) for value in part.parameters() if value.requires_grad]
    return make_gradients(recipe, parameters=trained, plans=plans, find_trunk=trunk, ranks=ranks)


def _make_feed(
    recipe: Recipe, sets: Sets, template: Template, device: torch.device, *, separate: bool, ranks: Ranks | None
) -> Feed:
    return Feed(
        sets,
        seed=recipe.seed,
        template=template,
        device=device,
        accumulation=recipe.training.accumulation,
        separate=separate,
        ranks=ranks,
        buckets=make_buckets(sets, template, device),
    )


def make_execution(recipe: Recipe, device: torch.device) -> Execution:
    """Choose how steps are computed: as CUDA graphs on CUDA, unless the recipe turns it off."""
    return Graphs(device) if device.type == "cuda" and recipe.run.capture != "off" else Eager(device)


def make_non_finite(recipe: Recipe) -> NonFinite:
    """Make what the recipe wants done with steps whose loss or gradient is not finite."""
    return Skip(recipe.training.most_skips) if recipe.training.non_finite == "skip" else Stop()


def make_scale(objective: Objective, machine: Machine) -> LossScale:
    """Make the scale of the losses; a dynamic one becomes part of the objective, whose state checkpoints keep."""
    if machine.precision != "fp16":
        return NoScale()
    scale = DynamicScale().to(machine.device)
    objective.add_module("scale", scale)
    return scale


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
    inference: Inference,
    recipe: Recipe,
    datasets: Mapping[str, Dataset],
    *,
    epoch: float = 0,
    step: int = 0,
    known: Scores | None = None,
) -> Evaluation:
    """Score all tasks, and overall by the recipe's formula; `known` are the scores of tasks that have no rows here."""
    scores = dict(known or {})
    for result in evaluate_tasks(inference, recipe.tasks, datasets):
        scores[result.task] = result.scores
    main = {name: (recipe.tasks[name].metric, own[recipe.tasks[name].metric]) for name, own in scores.items()}
    return Evaluation(epoch=epoch, step=step, overall=overall(main, recipe.overall), tasks=scores)
