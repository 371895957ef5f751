"""Deterministic mode: operations whose result may differ from run to run are replaced or refused."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from palbert.errors import DeviceError, first_line

log = logging.getLogger(__name__)

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


def choose_workspace(device: torch.device) -> None:
    """Give cuBLAS a workspace of fixed size, as torch requires; it counts only before the first product."""
    if device.type == "cuda":
        os.environ.setdefault(WORKSPACE, ":4096:8")


@contextmanager
def deterministic(device: torch.device, *, asked: bool) -> Iterator[None]:
    """Have torch replace or refuse operations that may differ from run to run; no-op unless asked.

    Raises:
        DeviceError: There is no deterministic implementation of an operation on this device.
    """
    if not asked:
        yield
        return
    former, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    if device.type == "cpu":
        log.info(
            "run.deterministic: on the CPU, results are the same in every run with the same number of threads (here "
            "%d) in any case; the mode only adds that torch refuses operations that it does not promise this for",
            torch.get_num_threads(),
        )
    try:
        yield
    except RuntimeError as error:
        if "deterministic" not in str(error):
            raise
        raise DeviceError(
            f"run.deterministic is set, but torch has no deterministic implementation on '{device}' of an operation "
            f"of this run: {first_line(error)}.",
            hint='Set run.deterministic = false, or run.device = "cpu".',
        ) from error
    finally:
        torch.use_deterministic_algorithms(former, warn_only=warns)
