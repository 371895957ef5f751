"""The optimizer's state: flattened for a file, checked and restored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from palbert.errors import CheckpointError

PARTS = ("step", "exp_avg", "exp_avg_sq")
"""What AdamW keeps of each parameter that has had a gradient."""


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Flatten an optimizer's state: parameter number and name → tensor."""
    return {
        f"{number}.{name}": value.detach().cpu().contiguous()
        for number, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def numbers_in(tensors: Iterable[str]) -> set[str]:
    """Return the numbers of the parameters that a flattened state has."""
    return {key.partition(".")[0] for key in tensors}


def check_optimizer(
    folder: Path, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], *, hint: str
) -> None:
    """Raise CheckpointError unless a flattened state fits the optimizer: a wrong shape would crash its fused step."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    wrong = {key for key, value in tensors.items() if not _fits(key, value, parameters)}
    wrong |= {f"{number}.{name}" for number in numbers_in(tensors) for name in PARTS} - tensors.keys()
    if wrong:
        raise CheckpointError(
            f"{folder / 'optimizer.safetensors'}: does not fit the model: {', '.join(sorted(wrong)[:8])}.", hint=hint
        )


def _fits(key: str, value: Tensor, parameters: list[Tensor]) -> bool:
    """Whether a tensor is what AdamW keeps of the parameter that its name says."""
    number, _, name = key.partition(".")
    if not number.isdecimal() or int(number) >= len(parameters) or name not in PARTS:
        return False
    parameter = parameters[int(number)]
    shape, kind = ((), torch.float32) if name == "step" else (parameter.shape, parameter.dtype)
    if value.shape != shape or value.dtype != kind or not value.isfinite().all():
        return False
    return name == "exp_avg" or not bool((value < 0).any())  # steps, and the mean of squares


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore a flattened state."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
