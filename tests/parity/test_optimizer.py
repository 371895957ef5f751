"""The optimizer takes the same steps as torch's plain AdamW with the groups written out by hand."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from palbert.training.optimizer import make_optimizer, set_rates


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Embedding(11, 6), nn.LayerNorm(6), nn.Linear(6, 6))
        self.heads = nn.ModuleDict({"a": nn.Linear(6, 3), "b": nn.Linear(6, 1)})

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.encoder(ids).tanh()
        return self.heads["a"](hidden).square().mean() + self.heads["b"](hidden).cos().mean()


@pytest.mark.parametrize("decay", [0.0, 0.01, 0.3])
def test_steps_equal_those_of_torchs_single_tensor_adamw(decay: float) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        ours = Model().double()
    theirs = copy.deepcopy(ours)
    betas, epsilon = (0.85, 0.95), 1e-7
    optimizer = make_optimizer(
        ours.named_children(),
        learning_rates={"encoder": 1e-2, "heads": 5e-2},
        weight_decay=decay,
        betas=betas,
        epsilon=epsilon,
    )
    embedding, norm, linear = theirs.encoder
    heads = list(theirs.heads.values())
    reference = torch.optim.AdamW(
        [
            {"params": [embedding.weight, linear.weight], "lr": 1e-2, "weight_decay": decay},
            {"params": [norm.weight, norm.bias, linear.bias], "lr": 1e-2, "weight_decay": 0.0},
            {"params": [head.weight for head in heads], "lr": 5e-2, "weight_decay": decay},
            {"params": [head.bias for head in heads], "lr": 5e-2, "weight_decay": 0.0},
        ],
        betas=betas,
        eps=epsilon,
        foreach=False,
        fused=False,
    )
    generator = torch.Generator().manual_seed(1)
    for step in range(20):
        ids = torch.randint(11, (8,), generator=generator)
        factor = 1 - step / 20
        set_rates(optimizer, factor)
        for group, peak in zip(reference.param_groups, (1e-2, 1e-2, 5e-2, 5e-2), strict=True):
            group["lr"] = peak * factor
        for model, method in ((ours, optimizer), (theirs, reference)):
            method.zero_grad()
            model(ids).backward()
            method.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
