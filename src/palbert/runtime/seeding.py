"""Seeding: the same seed on the same machine gives the same run."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import torch

from palbert.errors import CheckpointError
from palbert.runtime.distributed import Ranks

HINT = "Train again with --force, or into another folder with --out."


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


def restore_random_state(
    folder: Path, states: dict[str, torch.Tensor], device: torch.device, ranks: Ranks | None = None
) -> None:
    """Restore this rank's generators; a rank that the saved run did not have derives its own from the first's.

    Raises:
        CheckpointError: The states of this checkpoint folder are not those of generators.
    """
    file = folder / "random.safetensors"
    ranks = ranks or Ranks()
    saved = states.get(_name(min(ranks.rank, ranks_in(states) - 1), "cpu"))
    _check(file, saved, torch.get_rng_state())
    assert saved is not None
    if ranks.rank >= ranks_in(states):
        numbers = [ranks.rank, zlib.crc32(saved.numpy().tobytes())]
        seed_everything(int(np.random.SeedSequence(numbers).generate_state(1)[0]))
        return
    try:
        torch.set_rng_state(saved)
        cuda = states.get(_name(ranks.rank, "cuda"))
        if device.type == "cuda" and cuda is not None:
            _check(file, cuda, torch.cuda.get_rng_state(device))
            torch.cuda.set_rng_state(cuda, device)
    except RuntimeError as error:  # the right size, but not the state of a generator
        raise CheckpointError(f"{file}: {error}".splitlines()[0], hint=HINT) from error


def _check(file: Path, saved: torch.Tensor | None, expected: torch.Tensor) -> None:
    """Raise CheckpointError for a generator state of another size than this machine's."""
    if saved is None or saved.dtype != expected.dtype or saved.shape != expected.shape:
        found = "none" if saved is None else f"{saved.dtype} of shape {tuple(saved.shape)}"
        raise CheckpointError(
            f"{file}: expected generator states of {expected.numel()} bytes, found {found}.", hint=HINT
        )


def ranks_in(states: dict[str, torch.Tensor]) -> int:
    """Return how many ranks have saved their generator states."""
    return sum(name.endswith("cpu") for name in states)


def _name(rank: int, device: str) -> str:
    return f"{rank}.{device}" if rank else device
