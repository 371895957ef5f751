"""Ranks: the processes that train one model together, each with its share of every step's rows."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from palbert.errors import ConnectionLostError, DeviceError

ENVIRONMENT = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun sets for each process."""
BUCKET = 2**24
"""Numbers per call: large enough for few calls, small enough for little memory."""
TIMEOUT = timedelta(minutes=10)
"""After this, another process counts as lost where its connection is silent."""
PATIENCE = timedelta(days=1)
"""Timeout of `wait`: the first process may load data or write the report meanwhile."""

_watching: list[list[str]] = []  # the lists of all `detect_host_calls` that are running


@dataclass(frozen=True)
class Ranks:
    """A single process: collective calls return what they are given."""

    rank: int = 0
    """The number of this process, from 0."""
    size: int = 1
    """How many processes there are."""

    @property
    def communicate(self) -> bool:
        """Whether there are other processes to communicate with."""
        return self.size > 1

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and logs."""
        return self.rank == 0

    @property
    def is_restarted(self) -> bool:
        """Whether the launcher has started the same command again, after a process had failed."""
        return False

    @contextmanager
    def connected(self, device: torch.device) -> Iterator[None]:
        """Connect to the other processes while the block runs."""
        yield

    @contextmanager
    def first_process_first(self) -> Iterator[None]:
        """Let the first process finish the block before the others run it."""
        yield

    def count(self, *numbers: int) -> list[int]:
        """Sum numbers over all processes, on the host, without waiting for the device."""
        return list(numbers)

    def decide(self, *answers: bool) -> list[bool]:
        """Return the first process's answers in every process."""
        return [bool(number) for number in self.count(*(answer and self.is_first for answer in answers))]

    def wait(self) -> None:
        """Wait until all processes have called this, for as long as it takes."""

    def sum_gradients(self, gradients: Sequence[Tensor | None], parameters: Sequence[Tensor]) -> list[Tensor | None]:
        """Sum the gradients of some parameters; None counts as 0, and stays None where no process has a gradient."""
        return list(gradients)

    def sum_in_place(self, parameters: Sequence[Tensor]) -> None:
        """Sum the `.grad` of parameters over all processes."""

    def add_in_place(self, *tensors: Tensor) -> None:
        """Sum tensors over all processes, in place; their shapes must agree."""

    def gather(self, tensors: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
        """Return the tensors of each process in the order of ranks; they are on the CPU, and their shapes agree."""
        return [dict(tensors)]

    def join_rows(self, rows: Tensor, numbers: Sequence[int]) -> tuple[Tensor, int]:
        """Return the rows of all processes in the order of ranks, and the place of this process's first row.

        Gradients flow back to the process that a row comes from.

        Args:
            rows: This process's rows.
            numbers: How many rows each process contributes; a process with 0 may have rows, which are left out.
        """
        return rows, 0

    def broadcast(self, tensor: Tensor) -> Tensor:
        """Return the first process's tensor in every process."""
        return tensor

    def broadcast_module(self, module: nn.Module) -> None:
        """Copy the first process's parameters and buffers into the module of every process."""


@dataclass(frozen=True)
class Processes(Ranks):
    """Several processes, started by torchrun; all of them make the same calls in the same order."""

    local_rank: int = 0
    """The number of this process on its machine, from 0."""
    local_size: int = 1
    """How many processes its machine has."""
    restarts: int = 0
    """How many times the launcher has started the processes again."""
    groups: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Further groups of all processes, with settings of their own."""

    @property
    def is_restarted(self) -> bool:
        """Whether the launcher has started the same command again, after a process had failed."""
        return self.restarts > 0

    @contextmanager
    def connected(self, device: torch.device) -> Iterator[None]:
        """Connect to the other processes; "cuda" is one device per process, "cuda:0" one that all share."""
        backend = self._backend(device)
        try:
            store = self._store()
            dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.size, timeout=TIMEOUT)
            self.groups["wait"] = dist.new_group(timeout=PATIENCE, backend="gloo")
            _end_silent_connections()
            yield
        except RuntimeError as error:
            if not isinstance(error, dist.DistError) and "gloo" not in str(error):
                raise
            raise ConnectionLostError(
                f"Process {self.rank} of {self.size} lost the connection to another process.",
                hint="If no other process says why it ended, its machine or the network failed. "
                "Continue with the same command and --resume.",
            ) from error
        # Not after an error: the others may be waiting for a call that never comes, until torchrun ends them.
        dist.destroy_process_group()

    def _store(self) -> Any:
        """Return where the processes of this attempt find each other; None for the place that torch chooses.

        On one machine, torchrun keeps one store for all attempts, with the addresses of processes that have ended.
        Launchers on several machines count attempts differently, and make a new store if they are started as the guide
        says.
        """
        if self.local_size < self.size:
            return None
        store, _, _ = next(dist.rendezvous("env://", self.rank, self.size, timeout=TIMEOUT))  # type: ignore[attr-defined]
        return dist.PrefixStore(f"attempt-{self.restarts}", store)  # type: ignore[attr-defined]

    def wait(self) -> None:
        """Wait until all processes have called this, for as long as it takes."""
        dist.all_reduce(torch.zeros(1), group=self.groups["wait"])

    @contextmanager
    def first_process_first(self) -> Iterator[None]:
        """Let the first process finish the block before the others run it."""
        if not self.is_first:
            self.wait()
        yield
        if self.is_first:
            self.wait()

    def count(self, *numbers: int) -> list[int]:
        """Sum numbers over all processes, on the host, without waiting for the device."""
        total = torch.tensor(numbers, dtype=torch.int64)
        _all_reduce(total)
        return [int(number) for number in total.tolist()]

    def sum_gradients(self, gradients: Sequence[Tensor | None], parameters: Sequence[Tensor]) -> list[Tensor | None]:
        """Sum the gradients of some parameters; None counts as 0, and stays None where no process has a gradient."""
        holders = self.count(*(gradient is not None for gradient in gradients))
        held = [
            torch.zeros_like(parameter) if gradient is None else gradient.clone()
            for gradient, parameter, number in zip(gradients, parameters, holders, strict=True)
            if number
        ]
        self.add_in_place(*held)
        totals = iter(held)
        return [next(totals) if number else None for number in holders]

    def sum_in_place(self, parameters: Sequence[Tensor]) -> None:
        """Sum the `.grad` of parameters over all processes."""
        totals = self.sum_gradients([parameter.grad for parameter in parameters], parameters)
        for parameter, total in zip(parameters, totals, strict=True):
            parameter.grad = total

    def add_in_place(self, *tensors: Tensor) -> None:
        """Sum tensors over all processes, in place; their shapes must agree."""
        for bucket in _buckets(tensors):
            if len(bucket) == 1 and bucket[0].is_contiguous():
                _all_reduce(bucket[0].detach())
                continue
            flat = torch.cat([tensor.detach().flatten() for tensor in bucket])
            _all_reduce(flat)
            for tensor, total in zip(bucket, torch.split(flat, [tensor.numel() for tensor in bucket]), strict=True):
                tensor.detach().copy_(total.view(tensor.shape))

    def gather(self, tensors: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
        """Return the tensors of each process in the order of ranks; they are on the CPU, and their shapes agree."""
        found: list[dict[str, Tensor]] = [{} for _ in range(self.size)]
        for name, tensor in tensors.items():
            copies = [torch.empty_like(tensor) for _ in found]
            dist.all_gather(copies, tensor)
            for place, copy in zip(found, copies, strict=True):
                place[name] = copy
        return found

    def join_rows(self, rows: Tensor, numbers: Sequence[int]) -> tuple[Tensor, int]:
        """Return the rows of all processes in the order of ranks, and the place of this process's first row."""
        first, own = sum(numbers[: self.rank]), rows[: numbers[self.rank]]
        joined: Tensor = _JoinedRows.apply(own, first, sum(numbers))  # type: ignore[no-untyped-call]
        return joined, first if len(own) else 0

    def broadcast(self, tensor: Tensor) -> Tensor:
        """Return the first process's tensor in every process."""
        copy = tensor.detach().clone()
        dist.broadcast(copy, 0)
        return copy

    def broadcast_module(self, module: nn.Module) -> None:
        """Copy the first process's parameters and buffers into the module of every process."""
        for value in module.state_dict().values():
            dist.broadcast(value, 0)

    def _backend(self, device: torch.device) -> str:
        """Choose the backend; CPU tensors always use gloo, so that no count waits for the device."""
        if device.type == "mps":
            raise DeviceError("Several processes cannot share 'mps'.", hint='Set run.device = "cpu".')
        if device.type != "cuda" or device.index is not None:  # nccl refuses shared devices
            return "gloo"
        if self.local_size > torch.cuda.device_count():
            raise DeviceError(
                f"{self.local_size} processes on this machine; there are {torch.cuda.device_count()} CUDA devices.",
                hint='Start one process per device, or set run.device = "cuda:0" to let all share one.',
            )
        torch.cuda.set_device(self.local_rank)
        return "cpu:gloo,cuda:nccl"


def find_ranks() -> Ranks:
    """Return this process as torchrun's environment describes it, or as a single process."""
    if not all(name in os.environ for name in ENVIRONMENT):
        return Ranks()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return Processes(
        rank,
        size,
        local_rank=int(os.environ.get("LOCAL_RANK", rank)),
        local_size=int(os.environ.get("LOCAL_WORLD_SIZE", size)),
        restarts=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)),
    )


class _JoinedRows(torch.autograd.Function):
    """The rows of all processes; a sum with zeros elsewhere, so that processes may have different numbers of rows."""

    @staticmethod
    def forward(context: Any, own: Tensor, first: int, total: int) -> Tensor:
        context.places = slice(first, first + len(own))
        joined = own.new_zeros(total, *own.shape[1:])
        joined[context.places] = own
        _all_reduce(joined)
        return joined

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        total = gradients[0].clone(memory_format=torch.contiguous_format)
        _all_reduce(total)
        return total[context.places], None, None


def _end_silent_connections() -> None:
    """Let Linux probe this process's connections, and end those whose other machine does not answer for TIMEOUT.

    gloo does not ask for this; without it, `wait` would not notice a network that fails silently.
    """
    seconds = int(TIMEOUT.total_seconds())
    settings = {"TCP_KEEPIDLE": seconds // 2, "TCP_KEEPINTVL": seconds // 10, "TCP_USER_TIMEOUT": seconds * 1000}
    for path in Path("/proc/self/fd").glob("*"):  # none on other systems
        with suppress(OSError):  # closed meanwhile, or not of TCP
            if os.readlink(path).startswith("socket:"):
                with socket.socket(fileno=os.dup(int(path.name))) as connection:  # another handle of the same socket
                    for name, value in settings.items():
                        connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


@contextmanager
def detect_host_calls() -> Iterator[list[str]]:
    """List the calls within the block by which the host reaches other processes, as no CUDA graph can."""
    calls: list[str] = []
    _watching.append(calls)
    try:
        yield calls
    finally:
        _watching.remove(calls)


def _all_reduce(tensor: Tensor) -> None:
    """Sum a tensor over all processes, in place."""
    if not (tensor.is_cuda and "cuda:nccl" in dist.get_backend_config()):
        for calls in _watching:
            calls.append("all_reduce")
    for piece in torch.split(tensor.view(-1), BUCKET):
        dist.all_reduce(piece)


def _buckets(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Group tensors of one type, up to a size."""
    bucket: list[Tensor] = []
    size = 0
    for tensor in tensors:
        if bucket and (size + tensor.numel() > BUCKET or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket, size = [], 0
        bucket.append(tensor)
        size += tensor.numel()
    if bucket:
        yield bucket
