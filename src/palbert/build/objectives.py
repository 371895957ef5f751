"""The objectives of a recipe: supervised losses, terms added to them, and the balance between the tasks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

from palbert.build.model import check_tasks
from palbert.build.named import make
from palbert.data.dataset import Dataset
from palbert.data.training_set import TrainingSet
from palbert.errors import PalbertError, RecipeError
from palbert.objectives import Goal, Loss, Term
from palbert.objectives.balance import Balance
from palbert.objectives.distillation import Distillation
from palbert.objectives.logit_adjustment import adjusted
from palbert.objectives.losses import BOUNDS
from palbert.objectives.objectives import Objectives
from palbert.objectives.row_losses import gives_row_losses
from palbert.objectives.supervised import Supervised
from palbert.options import check_number, check_options, takes
from palbert.recipe.schema import Recipe
from palbert.registry import BALANCES, LOSSES, OBJECTIVES
from palbert.tasks.spec import Task


def make_loss(task: Task) -> Loss:
    """Make a task's supervised loss: a function with the recipe's options, or an instance of a class made with them."""
    place = f"tasks.{task.name}.loss"
    found, options = LOSSES.find(task.loss.name, place), dict(task.loss.options)
    if task.label_smoothing:
        options["label_smoothing"] = task.label_smoothing
    if isinstance(found, type):
        loss: Loss = make(LOSSES, task.loss, place)
        return _checked(loss, task)
    check_options(found, (None, None), {"reduction": "mean"} if takes(found, "reduction") else {}, options, place)
    for name in options if task.loss.name in LOSSES.paths else ():
        try:
            check_number(name, options[name], **BOUNDS[name])
        except PalbertError as error:
            raise RecipeError(f"{place}: {error.message}") from None
    return _checked(functools.partial(found, **options) if options else found, task)


def _checked(loss: Loss, task: Task) -> Loss:
    """Return a loss if it can take the task's weights of rows or classes."""
    weighted = [name for name in ("row_weight", "class_weights") if getattr(task, name)]
    weighted += [f"extra.{name}.row_weight" for name, extra in task.extra.items() if extra.row_weight]
    if weighted and not gives_row_losses(loss):
        raise RecipeError(
            f"tasks.{task.name}.{weighted[0]}: weights need the loss of each row, and '{task.loss.name}' gives only "
            "their mean.",
            hint='Give it the argument reduction: "mean", the default, or "none", which returns one loss per row.',
        )
    return loss


def make_objectives(
    recipe: Recipe,
    train: Mapping[str, TrainingSet[Dataset]] | None = None,
    *,
    losses: Mapping[str, Loss] | None = None,
    report: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Objectives:
    """Make the supervised losses, the terms added to them, and the balance between the tasks.

    Args:
        recipe: The recipe, or one stage of it.
        train: The training sets, whose class shares a prior is compared with; without them, priors are ignored.
        losses: The supervised loss of each set; those of the recipe unless given.
        report: The context in which each term is made; it may keep the error of one that cannot be made.
    """
    sets = recipe.sets
    losses = {name: make_loss(spec.task) for name, spec in sets.items()} if losses is None else dict(losses)
    for name, each in (train or {}).items():
        labels = each.rows.labels
        if name in losses and sets[name].task.prior and labels is not None:
            task = sets[name].task
            losses[name] = adjusted(
                losses[name], labels, task.prior, target=task.target, name=name, weights=each.weights
            )
    goals = {name: Goal.of(spec, losses[name]) for name, spec in sets.items()}
    terms: list[Term] = []
    for number in range(len(recipe.objectives)):
        with report():
            terms.append(_make_term(recipe, number, goals))
    distilled = [name for term in terms if isinstance(term, Distillation) for name in term.goals]
    if len(set(distilled)) < len(distilled):
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
