"""Triton kernels for CUDA; imported only if Triton is installed and a tensor is on a GPU."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec


@lru_cache
def has_triton() -> bool:
    """Whether Triton is installed; it comes with torch for CUDA."""
    return find_spec("triton") is not None
