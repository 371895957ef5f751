"""Machine: the device and number format of a run, and models prepared for inference on it."""

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
from palbert.runtime.distributed import Ranks
from palbert.runtime.precision import Precision, arithmetic, choose_device, choose_precision, set_products


@dataclass(frozen=True)
class Machine:
    """The device and number format of a run."""

    device: torch.device
    precision: Precision

    @classmethod
    def for_recipe(cls, recipe: Recipe) -> Machine:
        """Return the machine that a recipe asks for."""
        return cls.of(recipe.run.device, recipe.run.precision)

    @classmethod
    def of(cls, device: str, precision: Literal["auto"] | Precision) -> Machine:
        """Return the machine that is asked for, and set torch's precision of matrix products to match."""
        place = choose_device(device)
        chosen = choose_precision(precision, place)
        set_products(chosen)
        return cls(place, chosen)

    def arithmetic(self) -> Any:
        """Return the context for forward passes."""
        return arithmetic(self.precision, self.device)


def prepare_for_inference(model: MultiTaskModel, machine: Machine) -> MultiTaskModel:
    """Replace the encoder's linear layers by the machine's fastest; the model cannot be trained afterwards."""
    if machine.precision == "int8":
        quantise(model.encoder)
    elif replaces_layers(machine):
        pack(model.encoder)
    return model


def replaces_layers(machine: Machine) -> bool:
    """Whether `prepare_for_inference` replaces layers by others, which have no gradients."""
    packs = machine.device.type == "cpu" and machine.precision == "fp32" and can_pack()
    return packs or machine.precision == "int8"


def build_inference(
    model: MultiTaskModel, *, tokenizer: TextTokenizer, machine: Machine, ranks: Ranks | None = None
) -> Inference:
    """Return what answers texts with a model; several processes share the batches."""
    return Inference(
        model, template=tokenizer.template, device=machine.device, arithmetic=machine.arithmetic, ranks=ranks
    )
