"""Memory: the bytes of tensors, and the peak on a device during a computation."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


def peak_bytes(compute: Callable[[], object], device: torch.device) -> int:
    """Run a computation; return its peak memory in bytes, beyond what was allocated before.

    On CUDA the allocator counts. Elsewhere the tensors that torch makes are counted, without the internal memory of
    single operations.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        compute()
        return int(torch.cuda.max_memory_allocated(device) - before)
    counter = TensorCounter()
    with counter:
        compute()
    return counter.peak


def bytes_of(tensors: Iterable[Tensor], *, without: Iterable[Tensor] = ()) -> int:
    """Return the bytes of all distinct storages, except those that tensors in `without` use."""
    left_out = {tensor.untyped_storage()._cdata for tensor in without}
    storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(size for key, size in storages.items() if key not in left_out)


class TensorCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Count the bytes of the tensors that torch makes while it is entered, in forward and backward passes.

    Counts whole storages, each from the operation that makes it until nothing holds it any more.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        self.live = 0
        self._sizes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and count what it has made."""
        result = func(*args, **(kwargs or {}))
        # Arguments were counted when they were made, or are older; results may be views of them.
        given = {tensor.untyped_storage()._cdata for tensor in _tensors((args, kwargs))}
        for tensor in _tensors(result):
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key not in given and key not in self._sizes:
                self._sizes[key] = storage.nbytes()
                self.live += storage.nbytes()
                weakref.finalize(storage, self._forget, key)
        self.peak = max(self.peak, self.live)
        return result

    def _forget(self, key: int) -> None:
        self.live -= self._sizes.pop(key)


def _tensors(values: Any) -> Iterator[Tensor]:
    return (value for value in tree_iter(values) if isinstance(value, Tensor))
