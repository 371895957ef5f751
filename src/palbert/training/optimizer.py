"""The optimizer: AdamW with a rate a role, lower ones in lower layers, and no decay on biases and norms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn


def make_optimizer(
    roles: Iterable[tuple[str, nn.Module]],
    *,
    learning_rates: Mapping[str, float],
    parts: Iterable[tuple[str, int, nn.Module]] = (),
    layer_decay: float = 1.0,
    weight_decay: float = 0.01,
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
) -> torch.optim.AdamW:
    """Return AdamW over all trainable parameters of the named parts.

    Args:
        roles: Parts of the model by role, such as encoder and heads.
        learning_rates: The peak rate of each role.
        parts: Parts of the encoder by name, each with the number of layers above it.
        layer_decay: Multiplied onto a part's rate once for every layer above it; 1 for one rate throughout.
        weight_decay: For matrices; vectors (biases, norms) have none.
        betas: Decay of the two moving averages.
        epsilon: Added to the denominator.
    """
    # By identity: tensors compare by value.
    shares = {id(parameter): layer_decay**above for _, above, module in parts for parameter in module.parameters()}
    groups: list[dict[str, Any]] = []
    for role, module in roles:
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        for share in dict.fromkeys(shares.get(id(parameter), 1.0) for parameter in parameters):
            level = [parameter for parameter in parameters if shares.get(id(parameter), 1.0) == share]
            peak = learning_rates[role] * share
            for decays in (True, False):
                members = [parameter for parameter in level if (parameter.ndim >= 2) == decays]
                if members:
                    groups.append(
                        {
                            "params": members,
                            "role": role,
                            "lr": peak,
                            "peak": peak,
                            "weight_decay": weight_decay if decays else 0.0,
                        }
                    )
    device = groups[0]["params"][0].device
    return torch.optim.AdamW(groups, betas=betas, eps=epsilon, fused=device.type in ("cpu", "cuda"))


def set_rates(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set every group's rate to a share of its peak."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * factor


def rates(optimizer: torch.optim.Optimizer) -> dict[str, float]:
    """Return the present rate of each role; where layers have their own, the top one."""
    found: dict[str, float] = {}
    for group in optimizer.param_groups:
        found[group["role"]] = max(float(group["lr"]), found.get(group["role"], 0.0))
    return found
