"""The page: what a soak tried and found, as docs/reliability.md."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from tests.soak import faults, operations
from tests.soak.children import MEMORY
from tests.soak.trials import Tally

EXCEPTION = re.compile(r"(\w+\.)*\w+(Error|Exception|Interrupt|Warning|Exit)(:|$)")
INTRODUCTION = """# Reliability

This page is written by `make soak`, which does what a long life does to files: it disturbs palbert's commands at every
operation on a file, changes bytes of everything that palbert reads, and runs several processes on one folder.
`make test` runs a fixed sample of the same.
"""
FAULTS = """## Faults

Commands run in a small form: {names}.
In each trial one of them is disturbed at one operation. Then what was there before has to be readable, the command (or
`--resume`) has to end with the same files as an undisturbed run, bit for bit, and an error has to be one `PalbertError`
that names a path.

- **kill**: the process ends as by SIGKILL. **half**: it does so when half of a file is written.
- **Ctrl-C**: the process gets SIGINT; **twice**: again at its next operation. It may end with KeyboardInterrupt, as the
  command line does with exit code 130.
- **ENOSPC**, **EIO**, **EFBIG**, **EACCES**: the operation fails with this error, *once*, or from there *on*.
- **synced**, **names**, **torn**, **zeros**, **mixed**: the power fails. What was not flushed is lost
  (*synced*), or files have their new names without the content (*names*), with a part of it (*torn*), with
  zeros in its place (*zeros*), or some of each (*mixed*).

"save" is a file that safetensors or tokenizers write. There can be this many faults: {plans}.
"""
FUZZ = """## Files with changed bytes

A byte, a range or a value of a file is changed, and the file is read. The outcome has to be a `PalbertError` that names
the file, or a right answer: that of another reader (csv, json, pyarrow), or, for checkpoints and token caches, that of
the unchanged files. Other exceptions, crashes, hangs and more than {memory} GiB of memory are findings.
"""
LAWS = """## Generated inputs

[hypothesis](https://hypothesis.works) draws tables, labels, recipes and texts. What is read has to be exactly what was
put in, and a text has to be answered the same alone and next to others; or it is refused with a place.
"""
PROCESSES = """## Several processes

Two or three processes work on one folder at the same time, and some are killed at random moments. Each has to succeed
or to say that another one is at work; what is read in between has to be whole, and the end that of one process.
"""


def write(path: Path, tally: Tally, *, seed: int, seconds: float) -> None:
    """Write the page."""
    path.write_text("\n".join(_blocks(tally, seed=seed, seconds=seconds)), "utf-8")


def _blocks(tally: Tally, *, seed: int, seconds: float) -> Iterable[str]:
    yield INTRODUCTION
    yield from _summary(tally, seed=seed, seconds=seconds)
    plans = ", ".join(f"{name} {number:,}" for name, number in tally.plans.items()) or "none was run"
    yield FAULTS.format(names=", ".join(faults.FASTEST), plans=plans)
    yield _table(tally, "faults", "fault", operations.KINDS, faults.KINDS)
    yield FUZZ.format(memory=MEMORY >> 30)
    yield _table(tally, "files with changed bytes", "file", ["inputs"])
    yield LAWS
    yield _table(tally, "generated inputs", "law", ["inputs"])
    yield PROCESSES
    yield _table(tally, "processes", "processes", ["groups"])


def _summary(tally: Tally, *, seed: int, seconds: float) -> Iterable[str]:
    parts: dict[str, int] = {}
    for (part, _, _), number in tally.counts.items():
        parts[part] = parts.get(part, 0) + number
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    versions = ", ".join(f"{name} {version(name)}" for name in ("palbert", "torch", "safetensors", "tokenizers"))
    rows = [
        ("faults", f"{parts.get('faults', 0):,}"),
        ("files with changed bytes", f"{parts.get('files with changed bytes', 0):,}"),
        ("generated inputs", f"{parts.get('generated inputs', 0):,}"),
        ("groups of processes", f"{parts.get('processes', 0):,}"),
        ("**lost**", f"**{len(tally.findings)}**"),
        ("duration", f"{seconds / 60:.0f} minutes"),
        ("date", datetime.now(timezone.utc).strftime("%Y-%m-%d")),
        ("machine", machine),
        ("versions", versions),
        ("seed", f"{seed}"),
    ]
    yield "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]) + "\n"
    if tally.findings:
        yield "## Findings\n\nEach can be repeated with `python -m tests.soak --repeat NAME`.\n"
        yield "\n".join(f"- `{name}`: {_quoted(found)}" for name, found in sorted(tally.findings.items())) + "\n"


def _quoted(problem: str) -> str:
    """Return the line of a problem that says most, which is where a traceback names its exception."""
    lines = problem.strip().splitlines() or ["nothing was said"]
    line = next((line for line in reversed(lines) if EXCEPTION.match(line)), lines[-1])
    return f"`` {line[:200]} ``"


def _table(tally: Tally, part: str, title: str, columns: Sequence[str], rows: Sequence[str] | None = None) -> str:
    counts = {(row, column): number for (name, row, column), number in tally.counts.items() if name == part}
    rows = [row for row in rows or dict.fromkeys(row for row, _ in counts) if any(key[0] == row for key in counts)]
    columns = [column for column in columns if any(key[1] == column for key in counts)]
    if not rows:
        return "None was run.\n"
    lines = [f"| {title} | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for row in rows:
        cells = [f"{counts[row, column]:,}" if (row, column) in counts else "" for column in columns]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
