"""Processes: two or three at once on one folder, killed at random moments; the files must be those of one of them."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from tests.soak.children import Child, call
from tests.soak.jobs import (
    build_cache,
    evaluate,
    last_is_readable,
    of_evaluation,
    resume,
    run_is_readable,
    train,
    write_for_prediction,
    write_run,
)
from tests.soak.material import Results, columns, digest, of_run, write_inputs
from tests.soak.trials import Trial

ANSWERS = 6
"""Times that a process predicts while another one trains."""


@dataclass(frozen=True)
class Together:
    """Commands that run at the same time.

    Args:
        prepare: Makes what they find in their folder.
        commands: What the processes do, each with the folder.
        killed: Which of them may be killed.
        end: What continues whatever was left.
        results: What there is in the end, as after one undisturbed process.
        readable: What must hold before `end`.
    """

    prepare: Callable[[Path], object]
    commands: Sequence[Callable[[Path], object]]
    killed: Sequence[int]
    end: Callable[[Path], object]
    results: Callable[[Path], Results]
    readable: Callable[[Path, int | None], object] = lambda root, step: None


def alone(command: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return a command that may find the folder in use by another process, which it must say."""

    def run(root: Path) -> None:
        from palbert.errors import RunFolderError

        try:
            command(root)
        except RunFolderError as error:
            if "another process" not in str(error) and "already holds a run" not in str(error):
                raise

    return run


def ask(root: Path) -> None:
    """Predict again and again while another process trains; every checkpoint that it loads must be whole."""
    import palbert
    from palbert.errors import CheckpointError

    begun = False
    for _ in range(ANSWERS):
        try:
            found = palbert.load(root / "run", checkpoint="last").predict("score", ["good one"])
            begun = True
            assert len(found) == 1
        except CheckpointError as error:
            if begun or ("no such folder" not in str(error) and "no checkpoint" not in str(error)):
                raise
        time.sleep(0.02)


def predict_one(root: Path) -> None:
    """Predict a file into one output that others write too."""
    import palbert
    from palbert.verbs.predict_file import predict_file

    predict_file(palbert.load(root / "run"), "score", root / "in.csv", root / "answers.csv", force=True)


def output_is_whole(root: Path, step: int | None) -> None:
    """Check that the output is the earlier one or a complete new one."""
    output = root / "answers.csv"
    assert output.read_bytes() == b"earlier" or len(columns(output)["text"]) == 10, "answers.csv is not whole"


def replace(root: Path) -> None:
    """Train in place of the run that is there."""
    train(root, force=True)


def of_output(root: Path) -> Results:
    """Hash the output."""
    return {"answers.csv": digest(root / "answers.csv")}


def of_trained(root: Path) -> Results:
    """Hash the run."""
    return of_run(root / "run")


TOGETHER = {
    "train and train": Together(write_inputs, [alone(resume)] * 2, [0, 1], resume, of_trained),
    "train and train --force": Together(write_run, [alone(resume), alone(replace)], [0, 1], resume, of_trained),
    "train and predict": Together(write_inputs, [alone(resume), ask, ask], [0], resume, of_trained, last_is_readable),
    "evaluate and evaluate": Together(
        write_run, [alone(evaluate)] * 2, [0, 1], evaluate, of_evaluation, run_is_readable
    ),
    "cache builds": Together(write_inputs, [build_cache] * 3, [0, 1], build_cache, build_cache),
    "predict into one file": Together(
        write_for_prediction, [predict_one] * 3, [0, 1], predict_one, of_output, output_is_whole
    ),
}
"""What runs at the same time, by name."""


def trials(folder: Path, *, first: int, step: int = 1, rounds: int | None = None) -> Iterator[Trial]:
    """Give all groups of processes again and again, with other moments."""
    benches: dict[str, ProcessBench] = {}
    for number in count(first, step) if rounds is None else range(first, first + rounds * step, step):
        for name in TOGETHER:
            if name not in benches:
                benches[name] = ProcessBench(name, folder / name)
            yield benches[name].trial(number)


def repeat(name: str, folder: Path) -> str | None:
    """Try the group of a name again; the moments are the same, and what happens at them may differ."""
    _, group, seed = name.split(":")
    return ProcessBench(group, folder / group).problem(int(seed))


class ProcessBench:
    """A folder in which processes run at the same time again and again."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.together = TOGETHER[name]
        self.root, self.start = folder / "root", folder / "start"
        self._checked(lambda: self.together.prepare(self.root))
        shutil.copytree(self.root, self.start, symlinks=True)
        self.results = self._checked(self._ended)
        clock = time.monotonic()
        self._renew()
        self._checked(partial(self.together.commands[0], self.root))
        self.seconds = time.monotonic() - clock

    def _renew(self) -> None:
        shutil.rmtree(self.root)
        shutil.copytree(self.start, self.root, symlinks=True)

    def _checked(self, function: Callable[[], Any]) -> Any:
        ended = call(function, self.root, self._environment())
        if ended.code:
            raise RuntimeError(f"{self.name} fails undisturbed: {ended.said[-3000:]}")
        return ended.value

    def _environment(self) -> dict[str, str]:
        return {"PALBERT_CACHE": str(self.root / "cache")}

    def _ended(self) -> Results:
        self.together.readable(self.root, None)
        self.together.end(self.root)
        return self.together.results(self.root)

    def trial(self, seed: int) -> Trial:
        """Return one group as a trial."""

        def attempt() -> dict[str, str]:
            problem = self.problem(seed)
            return {f"processes:{self.name}:{seed}": problem} if problem else {}

        return Trial("processes", self.name, "groups", attempt)

    def problem(self, seed: int) -> str | None:
        """Run the processes together, kill some, and continue; return what is wrong, if anything is."""
        chance = random.Random(f"{self.name}:{seed}")
        self._renew()
        children = []
        for command in self.together.commands:
            children.append(Child(partial(command, self.root), self.root, self._environment()))
            time.sleep(chance.choice((0, 0, chance.random() * self.seconds / 2)))
        victims = {number for number in self.together.killed if chance.random() < 0.6}
        for number in sorted(victims):
            time.sleep(chance.random() * self.seconds)
            children[number].kill()
        problems = []
        for number, child in enumerate(children):
            ended = child.wait()
            if ended.code and not (number in victims and ended.code == -9):
                problems.append(f"process {number} ended with {ended.code}: {ended.said[-2000:]}")
        ended = call(self._ended, self.root, self._environment())
        if ended.code:
            problems.append(f"continuing ended with {ended.code}: {ended.said[-2000:]}")
        elif ended.value != self.results:
            names = {name for name in {*self.results, *ended.value} if self.results.get(name) != ended.value.get(name)}
            problems.append(f"another result: {sorted(names)}")
        return "\n".join(problems) or None
