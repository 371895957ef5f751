"""Byte fuzzing: files with changed bytes give a PalbertError that names the file, or a right answer."""

from __future__ import annotations

import copy
import json
import random
import shutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from tests.soak.children import call
from tests.soak.trials import Trial

BATCH = 20
"""Inputs that one child tries."""
TOKENS = [
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\t", b",", b'"', b"'", b"\\", b"{", b"}", b"[", b"]", b":"),
    *(b"NaN", b"Infinity", b"1e999", b"-1", b"18446744073709551616", b"null", b"true", b"1_0", b"\xed\xa0\x80"),
    *(
        b"\x1b[2J",
        b"[red]",
        b"=1+1",
        b"\xe2\x80\xae",
        b"\\ud800",
        b"\xc2\x85",
        b"a" * 5000,
        b"[" * 3000,
        b"\x7f\x7f\x7f",
    ),
]
"""What is put into files in addition to random bytes."""
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 3, 10**9, 2**31, 2**63, 10**30, 0.5, 1e308, float("nan"), float("inf")),
    *("", "a", "\x00", "a" * 3000, "../../etc/passwd", "os:system", "\ud800", [], [[]], {}, [1, "a"], {"a": 1}),
]
"""What is put into JSON in place of its values."""


@dataclass(frozen=True)
class Fuzz:
    """Something that reads files.

    Args:
        prepare: Writes what is read into a folder, once; returns what `attempt` is given.
        files: The files to change, as patterns.
        attempt: Reads the folder; it must raise a PalbertError, or return. AssertionError says that an answer is wrong.
        place: Whether every error has to name a path in the folder.
    """

    prepare: Callable[[Path], Any]
    files: Sequence[str]
    attempt: Callable[[Path, Any], object]
    place: bool = True


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Change some bytes."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        start = chance.randrange(len(changed) + 1)
        end = min(len(changed), start + chance.choice((1, 1, 2, 4, 16, 100, 4096)))
        match chance.randrange(9):
            case 0 if changed:
                changed[start % len(changed)] ^= 1 << chance.randrange(8)
            case 1 if changed:
                changed[start % len(changed)] = chance.randrange(256)
            case 2:
                del changed[start:end]
            case 3:
                changed[start:start] = changed[start:end] * chance.choice((1, 2, 50))
            case 4:
                changed[start:start] = chance.choice(TOKENS)
            case 5:
                changed[start:end] = chance.choice(TOKENS)
            case 6 if chance.random() < 0.3:
                del changed[start:]
            case 7:
                changed[start:end] = bytes(end - start)
            case _:
                changed[start:end] = chance.randbytes(end - start)
    return bytes(changed)


def mutated_json(content: bytes, chance: random.Random) -> bytes:
    """Change a value somewhere in JSON."""
    value = json.loads(content)
    for _ in range(chance.choice((1, 1, 2, 4))):
        places = list(_places(value))
        if not places:
            break
        holder, key = chance.choice(places)
        match chance.randrange(5):
            case 0 if isinstance(holder, dict):
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[chance.choice((key + "x", "x", ""))] = holder[key]
            case 2 if isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
                holder[key] = holder[key] * chance.choice((-1, 2, 0.5, 10**6)) + chance.choice((0, 1, -1))
            case _:
                holder[key] = copy.deepcopy(chance.choice(VALUES))  # a later change may be inside of it
    return json.dumps(value).encode()


def _places(value: Any) -> Any:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(pairs):
        yield value, key
        yield from _places(item)


def change(folder: Path, files: Sequence[str], chance: random.Random) -> str:
    """Change one of the files of a folder; return its name."""
    found = sorted({path for pattern in files for path in folder.glob(pattern) if path.is_file()})
    path = chance.choice(found)
    content = path.read_bytes()
    if chance.random() < 0.03:
        path.unlink()
    elif path.suffix == ".json" and chance.random() < 0.6:
        path.write_bytes(mutated_json(content, chance))
    else:
        path.write_bytes(mutated(content, chance))
    return str(path.relative_to(folder))


def trials(folder: Path, *, first: int, step: int = 1, rounds: int | None = None) -> Iterator[Trial]:
    """Give batches of inputs of everything that is fuzzed.

    Args:
        folder: Where the files are.
        first: The number of the first batch.
        step: From one batch to the next.
        rounds: How many batches of each kind; without end unless given.
    """
    from tests.soak.readers import FUZZED

    benches = [FuzzBench(name, fuzz, folder / name) for name, fuzz in FUZZED.items()]
    for number in count(first, step) if rounds is None else range(first, first + rounds * step, step):
        for bench in benches:
            yield bench.trial(range(number * BATCH, (number + 1) * BATCH))


def repeat(name: str, folder: Path) -> str | None:
    """Try the input of a name again."""
    from tests.soak.readers import FUZZED

    _, kind, seed = name.split(":")
    return FuzzBench(kind, FUZZED[kind], folder / kind).problems([int(seed)]).get(int(seed))


def _short(text: str) -> str:
    """Shorten the long lines of a traceback, and leave its end."""
    return "\n".join(line if len(line) < 400 else f"{line[:200]} … {line[-100:]}" for line in text.splitlines()[-40:])


class FuzzBench:
    """A folder in which one reader is given changed files again and again."""

    def __init__(self, name: str, fuzz: Fuzz, folder: Path) -> None:
        self.name, self.fuzz, self.folder = name, fuzz, folder
        self.start, self.root = folder / "start", folder / "root"
        self.environment = {"PALBERT_CACHE": str(folder / "cache")}
        ended = call(lambda: fuzz.prepare(self.root), self.root, self.environment)
        if ended.code:
            raise RuntimeError(f"{name} cannot be prepared: {ended.said[-3000:]}")
        shutil.copytree(self.root, self.start, symlinks=True)
        self.known = ended.value
        ended = call(lambda: fuzz.attempt(self.root, self.known), self.root, self.environment)
        if ended.code:
            raise RuntimeError(f"{name} is refused unchanged: {ended.said[-3000:]}")

    def trial(self, seeds: Sequence[int]) -> Trial:
        """Return some inputs as a trial."""

        def attempt() -> dict[str, str]:
            return {f"fuzz:{self.name}:{seed}": problem for seed, problem in self.problems(seeds).items()}

        return Trial("files with changed bytes", self.name, "inputs", attempt, len(seeds))

    def problems(self, seeds: Sequence[int]) -> dict[int, str]:
        """Try some inputs in one child; return what is wrong, by seed."""
        current = self.folder / "current"
        shutil.rmtree(self.folder / "cache", ignore_errors=True)
        ended = call(lambda: self._try_all(seeds, current), self.folder, self.environment)
        if ended.code == 0:
            return {int(seed): problem for seed, problem in ended.value.items()}
        seed = int(current.read_text())
        how = "hangs" if ended.code == -14 else f"ended the process with {ended.code}"
        return {seed: f"{how}: {ended.said[-2000:]}"}

    def _try_all(self, seeds: Sequence[int], current: Path) -> dict[int, str]:
        found = {}
        for seed in seeds:
            current.write_text(str(seed))
            if problem := self._try(seed):
                found[seed] = problem
        return found

    def _try(self, seed: int) -> str | None:
        """Try one input."""
        from palbert.errors import PalbertError

        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.start, self.root, symlinks=True)
        name = change(self.root, self.fuzz.files, random.Random(f"{self.name}:{seed}"))
        try:
            self.fuzz.attempt(self.root, self.known)
        except PalbertError as error:
            places = (Path(name).name, str(self.root), " row ")
            if self.fuzz.place and not any(place in str(error) for place in places):
                return f"{name}: an error without a place: {error}"
        except BaseException:  # tokenizers raises one that is not an Exception
            return f"{name}: {_short(traceback.format_exc())}"
        return None
