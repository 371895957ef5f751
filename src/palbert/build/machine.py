"""Machine: where a run computes, and how exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from palbert.data.tokenizer import TextTokenizer
from palbert.evaluation.evaluator import Inference
from palbert.model.multitask import MultiTaskModel
from palbert.recipe.schema import Recipe
from palbert.runtime.precision import Precision, arithmetic, choose_device, choose_precision, set_products


@dataclass(frozen=True)
class Machine:
    """Where a run computes, and how exactly."""

    device: torch.device
    precision: Precision

    @classmethod
    def for_recipe(cls, recipe: Recipe) -> Machine:
        """Choose what the recipe asks for."""
        device = choose_device(recipe.run.device)
        precision = choose_precision(recipe.run.precision, device)
        set_products(precision)
        return cls(device, precision)

    def arithmetic(self) -> Any:
        """Return the context that forward passes run in."""
        return arithmetic(self.precision, self.device)


def build_inference(model: MultiTaskModel, *, tokenizer: TextTokenizer, machine: Machine) -> Inference:
    """Make a model ready to answer."""
    return Inference(model, template=tokenizer.template, device=machine.device, arithmetic=machine.arithmetic)
