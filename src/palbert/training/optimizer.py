"""The optimizer: AdamW with one learning rate per role, lower rates in lower layers, no decay of biases and norms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from palbert.training.loss_scale import LossScale


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
    """Return AdamW over all trainable parameters of the roles.

    Args:
        roles: Parts of the model by role, such as encoder and heads.
        learning_rates: The peak rate of each role.
        parts: Parts of the encoder by name, each with the number of layers above it.
        layer_decay: A part's rate is multiplied by this once for every layer above it; 1 for one rate throughout.
        weight_decay: For matrices; vectors (biases, norms) have none.
        betas: Decay of the two moving averages.
        epsilon: Added to the denominator.
    """
    # By id, because tensors compare by value.
    factors = {id(parameter): layer_decay**above for _, above, module in parts for parameter in module.parameters()}
    groups: list[dict[str, Any]] = []
    for role, module in roles:
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        for factor in dict.fromkeys(factors.get(id(parameter), 1.0) for parameter in parameters):
            level = [parameter for parameter in parameters if factors.get(id(parameter), 1.0) == factor]
            peak = learning_rates[role] * factor
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
    on_cuda = device.type == "cuda"
    if on_cuda:  # a captured step reads the rates on the device
        groups = [{**group, "lr": torch.tensor(group["lr"], device=device)} for group in groups]
    fused = device.type in ("cpu", "cuda")
    return torch.optim.AdamW(groups, betas=betas, eps=epsilon, fused=fused, capturable=on_cuda)


def set_rates(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set every group's rate to a fraction of its peak."""
    for group in optimizer.param_groups:
        rate = group["peak"] * factor
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def clip_gradients(optimizer: torch.optim.Optimizer, longest: float, scale: LossScale) -> Tensor:
    """Unscale the gradient, and clip its norm to `longest`; return the norm, or 0 where the scale handles an overflow.

    A fused optimizer divides by `grad_scale` while it reads the gradients, and skips a step by `found_inf`, as for
    torch's GradScaler: neither takes a separate pass over the gradients.
    """
    parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    divisor, overflow = scale.divisor(norm, longest), scale.overflow(norm)
    if not optimizer.defaults["fused"]:  # as on mps
        torch._foreach_div_(gradients, divisor)
        return norm
    optimizer.grad_scale = divisor  # type: ignore[attr-defined]
    optimizer.found_inf = overflow  # type: ignore[attr-defined]  # None replaces what a policy set in the step before
    if overflow is not None:
        return torch.where(overflow.bool(), 0.0, norm)
    return norm


def rates(optimizer: torch.optim.Optimizer) -> dict[str, float]:
    """Return the current rate of each role; if its layers have different ones, the highest."""
    return _highest(optimizer, (float(group["lr"]) for group in optimizer.param_groups))


def rates_at(optimizer: torch.optim.Optimizer, factor: float) -> dict[str, float]:
    """Return the rate of each role as `rates` does, where every rate is a fraction of its peak."""
    return _highest(optimizer, (group["peak"] * factor for group in optimizer.param_groups))


def _highest(optimizer: torch.optim.Optimizer, values: Iterable[float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for group, rate in zip(optimizer.param_groups, values, strict=True):
        found[group["role"]] = max(rate, found.get(group["role"], 0.0))
    return found
