"""Seeds: same seed, same machine, same run."""

from __future__ import annotations

import torch


def seed_everything(seed: int) -> None:
    """Seed torch on all devices; numpy generators are made from the seed where they are used."""
    torch.manual_seed(seed)


def random_state(device: torch.device) -> dict[str, torch.Tensor]:
    """Return the state of the generators that a run on this device draws from."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_random_state(states: dict[str, torch.Tensor], device: torch.device) -> None:
    """Put the generators back."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
