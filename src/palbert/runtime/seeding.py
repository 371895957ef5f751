"""Seeding: the same seed on the same machine gives the same run."""

from __future__ import annotations

import numpy as np
import torch

from palbert.errors import CheckpointError
from palbert.runtime.distributed import Ranks


def seed_everything(seed: int) -> None:
    """Seed torch on all devices; numpy generators are made from the seed where they are needed."""
    torch.manual_seed(seed)


def seed_rank(seed: int, ranks: Ranks) -> None:
    """Give each rank its own random numbers, for dropout and the like; the first keeps its generators."""
    if not ranks.is_first:
        seed_everything(int(np.random.SeedSequence([seed, ranks.rank]).generate_state(1)[0]))


def random_state(device: torch.device, ranks: Ranks | None = None) -> dict[str, torch.Tensor]:
    """Return the generator states of all ranks, for a run on this device."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    gathered = (ranks or Ranks()).gather(states)
    return {_name(rank, name): state for rank, found in enumerate(gathered) for name, state in found.items()}


def restore_random_state(states: dict[str, torch.Tensor], device: torch.device, ranks: Ranks | None = None) -> None:
    """Restore this rank's generators; raise CheckpointError if the number of ranks has changed."""
    ranks = ranks or Ranks()
    size = sum(name.endswith("cpu") for name in states)
    if size != ranks.size:
        launcher = f"torchrun --nproc-per-node {size} -m " if size > 1 else ""
        raise CheckpointError(
            f"Processes: expected {size}, as many as the run began with, found {ranks.size}.",
            hint=f"Start it with: {launcher}palbert train … --resume",
        )
    own, expected = states.get(_name(ranks.rank, "cpu")), torch.get_rng_state()
    if own is None or own.dtype != expected.dtype or own.shape != expected.shape:
        found = "none" if own is None else f"{own.dtype} of shape {tuple(own.shape)}"
        raise CheckpointError(
            f"random.safetensors: expected generator states of {expected.numel()} bytes, found {found}.",
            hint="Train again with --force, or into another folder with --out.",
        )
    torch.set_rng_state(own)
    cuda = _name(ranks.rank, "cuda")
    if device.type == "cuda" and cuda in states:
        torch.cuda.set_rng_state(states[cuda], device)


def _name(rank: int, device: str) -> str:
    return f"{rank}.{device}" if rank else device
