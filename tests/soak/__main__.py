"""The soak: faults, files with changed bytes and processes for a given time; see docs/reliability.md."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a process with more threads cannot be forked safely
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from tests.soak import faults, fuzz, laws, page, processes
from tests.soak.children import warm_up
from tests.soak.trials import Tally, Trial

PARTS = {"faults": 0.5, "fuzz": 0.2, "laws": 0.1, "processes": 0.2}
"""The parts, and the share of the time that each gets."""
REPEATED = {
    "fault": ("faults", faults.repeat),
    "fuzz": ("fuzz", fuzz.repeat),
    "law": ("laws", laws.repeat),
    "processes": ("processes", processes.repeat),
}
"""The part that a finding belongs to, and what repeats it, by the beginning of its name."""


def main() -> int:
    """Run what the arguments say; return 1 if anything was lost."""
    arguments = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="palbert-soak-", dir=arguments.folder))
    try:
        warm_up()
        if arguments.repeat:
            part, repeat = REPEATED[arguments.repeat.split(":")[0]]
            problem = repeat(arguments.repeat, _place(folder, part))
            _say(problem or "nothing is wrong")
            return int(bool(problem))
        started = time.time()
        tally = _run(arguments, folder)
        if arguments.json:
            tally.write(arguments.json)
        if arguments.page:
            page.write(arguments.page, tally, seed=arguments.seed, seconds=time.time() - started)
        for name, problem in tally.findings.items():
            _say(f"\n{name}\n{problem}")
        return int(bool(tally.findings))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _arguments() -> argparse.Namespace:
    memory = Path("/dev/shm")
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600, help="how long it runs")
    parser.add_argument("--seed", type=int, default=0, help="of the order of the faults, the inputs and the moments")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS), help="the parts to run")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes that share the work")
    parser.add_argument("--sample", action="store_true", help="a fixed sample in place of a given time")
    parser.add_argument("--page", type=Path, help="the page to write")
    parser.add_argument("--json", type=Path, help="a file for what was tried and found")
    parser.add_argument("--repeat", help="a finding to try again")
    usable = memory.is_dir() and os.access(memory, os.W_OK)
    parser.add_argument("--folder", type=Path, default=memory if usable else None, help="where the files are")
    return parser.parse_args()


def _run(arguments: argparse.Namespace, folder: Path) -> Tally:
    """Run all parts, in several processes if there is a time."""
    if arguments.sample:
        tally = Tally()
        for trial in _sample(arguments, folder):
            tally.run(trial)
        return tally
    end = time.time() + arguments.seconds
    workers = []
    for number in range(arguments.workers):
        place = folder / str(number)
        place.mkdir()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                _work(arguments, place, number, end)
                code = 0
            finally:
                os._exit(code)
        workers.append((pid, place))
    tally = Tally()
    for pid, place in workers:
        _, status = os.waitpid(pid, 0)
        if status:
            tally.findings[f"worker {place.name}"] = f"ended with {os.waitstatus_to_exitcode(status)}, see its messages"
        if (place / "tally.json").exists():  # not if it ended before it could write one
            tally.add(Tally.read(place / "tally.json"))
    return tally


def _work(arguments: argparse.Namespace, folder: Path, number: int, end: float) -> None:
    """Do the share of one process until the time is over."""
    tally, share = Tally(), (number, arguments.workers)
    first = arguments.seed * 10**6 + number
    given = {
        "faults": faults.trials(folder / "faults", seed=arguments.seed, share=share, tally=tally),
        "fuzz": fuzz.trials(folder / "fuzz", first=first, step=arguments.workers),
        "laws": laws.trials(folder / "laws", first=first, step=arguments.workers),
        "processes": processes.trials(folder / "processes", first=first, step=arguments.workers),
    }
    waiting = {name: given[name] for name in arguments.only}
    spent = dict.fromkeys(waiting, 0.0)
    said = 0.0
    while waiting and time.time() < end:
        name = min(waiting, key=lambda name: spent[name] / PARTS[name])
        started = time.time()
        trial = next(waiting[name], None)
        if trial is None:
            del waiting[name]
            continue
        tally.run(trial)
        spent[name] += time.time() - started
        if time.time() - said > 10:
            said = time.time()
            tally.write(folder / "tally.json")
            _say(_progress(tally, number, end - said))
    tally.write(folder / "tally.json")


def _sample(arguments: argparse.Namespace, folder: Path) -> Iterator[Trial]:
    if "faults" in arguments.only:
        yield from faults.sample(_place(folder, "faults"), seed=arguments.seed, further=2)
    if "fuzz" in arguments.only:
        yield from fuzz.trials(_place(folder, "fuzz"), first=arguments.seed, rounds=1)
    if "laws" in arguments.only:
        yield from laws.trials(_place(folder, "laws"), first=arguments.seed, rounds=2)
    if "processes" in arguments.only:
        yield from processes.trials(_place(folder, "processes"), first=arguments.seed, rounds=1)


def _place(folder: Path, part: str) -> Path:
    """Return where a part works outside of a worker: paths of one length make mutations the same."""
    return folder / "0" / part


def _progress(tally: Tally, number: int, left: float) -> str:
    """Return what was done so far."""
    done = {part: sum(n for key, n in tally.counts.items() if key[0] == part) for part in ("faults", "processes")}
    inputs = sum(tally.counts.values()) - sum(done.values())
    return (
        f"worker {number}: {done['faults']:,} faults, {inputs:,} inputs, {done['processes']:,} groups of processes, "
        f"{len(tally.findings)} findings, {max(0, left):.0f} s left"
    )


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
