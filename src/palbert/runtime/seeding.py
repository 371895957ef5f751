"""Seeds: same seed, same machine, same run."""

from __future__ import annotations

import numpy as np
import torch

from palbert.errors import CheckpointError
from palbert.runtime.distributed import Ranks


def seed_everything(seed: int) -> None:
    """Seed torch on all devices; numpy generators are made from the seed where they are used."""
    torch.manual_seed(seed)


def seed_apart(seed: int, ranks: Ranks) -> None:
    """Let each process draw numbers of its own, such as dropout; the first goes on as it is."""
    if not ranks.is_first:
        seed_everything(int(np.random.SeedSequence([seed, ranks.rank]).generate_state(1)[0]))


def random_state(device: torch.device, ranks: Ranks | None = None) -> dict[str, torch.Tensor]:
    """Return the state of the generators that a run on this device draws from, of all processes."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    gathered = (ranks or Ranks()).gather(states)
    return {_name(rank, name): state for rank, found in enumerate(gathered) for name, state in found.items()}


def restore_random_state(states: dict[str, torch.Tensor], device: torch.device, ranks: Ranks | None = None) -> None:
    """Put the generators back; refuse a state of more or fewer processes."""
    ranks = ranks or Ranks()
    size = sum(name.endswith("cpu") for name in states)
    if size != ranks.size:
        launcher = f"torchrun --nproc-per-node {size} -m " if size > 1 else ""
        raise CheckpointError(
            f"Processes: expected {size}, as many as the run began with, found {ranks.size}.",
            hint=f"Start it with: {launcher}palbert train … --resume",
        )
    torch.set_rng_state(states[_name(ranks.rank, "cpu")])
    cuda = _name(ranks.rank, "cuda")
    if device.type == "cuda" and cuda in states:
        torch.cuda.set_rng_state(states[cuda], device)


def _name(rank: int, device: str) -> str:
    return f"{rank}.{device}" if rank else device
