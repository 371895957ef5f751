"""Machine: where a run computes, and how exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch

from palbert.data.tokenizer import TextTokenizer
from palbert.inference.evaluator import Inference
from palbert.model.int8 import quantise
from palbert.model.multitask import MultiTaskModel
from palbert.model.packed import can_pack, pack
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
        return cls.of(recipe.run.device, recipe.run.precision)

    @classmethod
    def of(cls, device: str, precision: Literal["auto"] | Precision) -> Machine:
        """Choose what is asked for, and have torch multiply as it says."""
        place = choose_device(device)
        chosen = choose_precision(precision, place)
        set_products(chosen)
        return cls(place, chosen)

    def arithmetic(self) -> Any:
        """Return the context that forward passes run in."""
        return arithmetic(self.precision, self.device)


def settle(model: MultiTaskModel, machine: Machine) -> MultiTaskModel:
    """Bring a model that only answers from now on into the form that does so fastest; it cannot be trained any more."""
    if machine.precision == "int8":
        quantise(model.encoder)
    elif machine.device.type == "cpu" and machine.precision == "fp32" and can_pack():
        pack(model.encoder)
    return model


def build_inference(model: MultiTaskModel, *, tokenizer: TextTokenizer, machine: Machine) -> Inference:
    """Make a model ready to answer."""
    return Inference(model, template=tokenizer.template, device=machine.device, arithmetic=machine.arithmetic)
