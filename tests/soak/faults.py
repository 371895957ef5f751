"""Faults: a job is disturbed at one operation, and has to end like the undisturbed one when it is continued."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.soak.children import KILLED, Ended, call
from tests.soak.disk import VARIANTS, Disk
from tests.soak.jobs import JOBS
from tests.soak.operations import Layer, Operation
from tests.soak.trials import Tally, Trial

ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "EFBIG": errno.EFBIG, "EACCES": errno.EACCES}
REFUSED = {
    "ENOSPC": {"open", "write", "save", "mkdir", "link", "rename", "fsync", "truncate", "sync folder"},
    "EIO": {"open", "write", "save", "mkdir", "link", "rename", "unlink", "rmdir", "fsync", "truncate", "sync folder"},
    "EFBIG": {"write", "save", "truncate"},
    "EACCES": {"open", "save", "mkdir", "link", "rename", "unlink", "rmdir"},
}
"""The operations that the system refuses with each error."""
INTERRUPTS = {"Ctrl-C": 1, "Ctrl-C twice": 2}
"""How many operations in a row are interrupted."""
KINDS = ("kill", "half", *INTERRUPTS, *(f"{name} {times}" for name in ERRORS for times in ("once", "on")), *VARIANTS)
"""What happens at an operation.

kill: the process ends. half: it ends when half is written. Ctrl-C: it gets SIGINT before this operation; twice: before
the next one, too. ENOSPC once: this operation fails; ENOSPC on: this one and all later ones that write. The others are
what a power loss leaves.
"""

FASTEST = ("cache", "predict", "evaluate", "export", "train", "reproduce", "folds", "pretrain")
"""All jobs, the fastest first."""


@dataclass(frozen=True, order=True)
class Fault:
    """What happens to which job at which operation."""

    job: str
    kind: str
    number: int

    def __str__(self) -> str:
        return f"fault:{self.job}:{self.kind}:{self.number}"


@dataclass
class Plan:
    """What a job does when nothing disturbs it."""

    operations: list[str]
    """The kinds of its operations, in order."""
    paths: list[str]
    results: dict[str, str]


@dataclass
class Bench:
    """A folder in which one job is disturbed again and again.

    Args:
        name: The name of the job.
        folder: Where it works; it must be empty.
    """

    name: str
    folder: Path
    plan: Plan = field(init=False)

    def __post_init__(self) -> None:
        self.job = JOBS[self.name]
        self.root = self.folder / "root"
        self.start = self.folder / "start"
        for place in (self.root, self.root / "tmp", self.root / "cache"):
            place.mkdir(parents=True)
        self._expect(self._call(lambda: self.job.prepare(self.root)))
        shutil.copytree(self.root, self.start, symlinks=True)
        noted: list[tuple[str, str]] = []
        ended = self._call(lambda: self._planned(noted))
        self._expect(ended)
        operations, paths, results = ended.value
        self.plan = Plan(operations, paths, results)

    def _planned(self, noted: list[tuple[str, str]]) -> Any:
        def note(operation: Operation) -> None:
            noted.append((operation.kind, str(operation.path.relative_to(self.root.resolve()))))

        with Layer(self.root, note).installed():
            self.job.command(self.root)
        return [kind for kind, _ in noted], [path for _, path in noted], self.job.results(self.root)

    def faults(self) -> list[Fault]:
        """Return everything that can happen to the job."""
        return [
            Fault(self.name, kind, number)
            for number, operation in enumerate(self.plan.operations)
            for kind in KINDS
            if (operation in REFUSED.get(kind.split()[0], {operation}))
            and (kind != "half" or operation in ("write", "save"))
        ]

    def problem(self, fault: Fault) -> str | None:
        """Disturb the job, and continue it; return what is wrong, if anything is."""
        shutil.rmtree(self.root)
        shutil.copytree(self.start, self.root, symlinks=True)
        image = self.folder / "image"
        shutil.rmtree(image, ignore_errors=True)
        progress = self.folder / "progress"
        progress.write_text("null")
        ended = self._call(lambda: self._disturbed(fault, image, progress))
        step = json.loads(progress.read_text())
        if ended.code not in (0, KILLED):
            return f"the disturbed command ended with {ended.code}: {ended.said[-3000:]}"
        if ended.code == 0 and ended.value is not None:
            return str(ended.value)
        if image.exists():
            shutil.rmtree(self.root)
            image.rename(self.root)
            for place in ("tmp", "cache"):
                (self.root / place).mkdir(exist_ok=True)
        continued = self._call(lambda: self._continued(step))
        if continued.code:
            return f"continuing it ended with {continued.code}: {continued.said[-3000:]}"
        wrong = {
            name: (self.plan.results.get(name), continued.value.get(name))
            for name in self.plan.results.keys() | continued.value.keys()
            if self.plan.results.get(name) != continued.value.get(name)
        }
        return f"another result (expected, found): {wrong}" if wrong else None

    def _continued(self, step: int | None) -> dict[str, str]:
        self.job.readable(self.root, step)
        self.job.again(self.root)
        return self.job.results(self.root)

    def _disturbed(self, fault: Fault, image: Path, progress: Path) -> str | None:
        """Run the command with a fault; return what is wrong with the error it ended with, if it did."""
        from palbert.errors import PalbertError

        strike = _Strike(fault, self.root, image)
        try:
            with strike.layer.installed(), _progress_noted(progress):
                signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the soak runs in background
                self.job.command(self.root)
        except KeyboardInterrupt:
            if fault.kind not in INTERRUPTS:
                raise
        except PalbertError as error:
            if str(self.root) not in str(error):
                return f"an error without a place: {error}"
            return None
        return None

    def _call(self, function: Any) -> Ended:
        environment = {"PALBERT_CACHE": str(self.root / "cache"), "TMPDIR": str(self.root / "tmp")}
        tempfile.tempdir = None
        return call(function, self.root, environment)

    def _expect(self, ended: Ended) -> None:
        if ended.code:
            raise RuntimeError(f"{self.name} fails undisturbed: {ended.said[-3000:]}")


class _Strike:
    """What a layer calls before each operation: nothing, until the operation of the fault."""

    def __init__(self, fault: Fault, root: Path, image: Path) -> None:
        self.fault = fault
        self.root = root
        self.image = image
        self.disk = Disk(root) if fault.kind in VARIANTS else None
        self.layer = Layer(root, self.before, self.disk.synced if self.disk else lambda _: None)

    def before(self, operation: Operation) -> None:
        kind, number = self.fault.kind, self.fault.number
        if kind in INTERRUPTS:
            if number <= operation.number < number + INTERRUPTS[kind]:
                signal.raise_signal(signal.SIGINT)
            return
        if (kind.endswith(" on") and operation.number >= number) or operation.number == number:
            name = kind.split()[0]
            if name not in ERRORS:
                self._end(operation)
            if operation.kind in REFUSED[name]:
                raise OSError(ERRORS[name], os.strerror(ERRORS[name]), str(operation.path))

    def _end(self, operation: Operation) -> None:
        if self.fault.kind == "half" and operation.tear:
            operation.tear()
        if self.disk:
            self.disk.write_image(self.image, self.fault.kind, self.fault.number)
        os._exit(KILLED)


@contextmanager
def _progress_noted(progress: Path) -> Iterator[None]:
    """Write the step of each checkpoint that is complete to a file."""
    from palbert.training import checkpoint_hooks
    from palbert.training.checkpoint import save_checkpoint

    def saved(*arguments: Any, **settings: Any) -> None:
        save_checkpoint(*arguments, **settings)
        progress.write_text(str(settings["description"]["step"]))

    with patch.object(checkpoint_hooks, "save_checkpoint", saved):
        yield


def trials(folder: Path, *, seed: int, share: tuple[int, int], tally: Tally) -> Iterator[Trial]:
    """Give the faults of all jobs in a random order, one job after the other.

    Args:
        folder: Where the jobs work.
        seed: Of the order.
        share: The number of this process and of all processes, which share the faults.
        tally: Where the number of faults that there can be is noted.
    """
    benches = {name: Bench(name, folder / name) for name in JOBS}
    waiting = {}
    for name, bench in benches.items():
        found = bench.faults()
        tally.plans[name] = len(found)
        random.Random(f"{name}:{seed}").shuffle(found)
        waiting[name] = found[share[0] :: share[1]]
    while any(waiting.values()):
        for name, found in waiting.items():
            if found:
                yield trial(benches[name], found.pop())


def sample(folder: Path, *, seed: int, further: int) -> Iterator[Trial]:
    """Give every kind of fault at every kind of operation once, in the fastest job, and some more of each job."""
    chance = random.Random(seed)
    covered: set[tuple[str, str]] = set()
    for name in FASTEST:
        bench = Bench(name, folder / name)
        faults = bench.faults()
        chance.shuffle(faults)
        chosen = faults[:further]
        for fault in faults:
            pair = fault.kind, bench.plan.operations[fault.number]
            if pair not in covered:
                covered.add(pair)
                chosen.append(fault)
        yield from (trial(bench, fault) for fault in chosen)


def trial(bench: Bench, fault: Fault) -> Trial:
    """Return a fault as a trial."""

    def attempt() -> dict[str, str]:
        problem = bench.problem(fault)
        where = bench.plan.operations[fault.number], bench.plan.paths[fault.number]
        return {str(fault): f"{' '.join(where)}: {problem}"} if problem else {}

    return Trial("faults", fault.kind, bench.plan.operations[fault.number], attempt)


def repeat(name: str, folder: Path) -> str | None:
    """Try the fault of a name again."""
    _, job, kind, number = name.split(":")
    return Bench(job, folder / job).problem(Fault(job, kind, int(number)))
