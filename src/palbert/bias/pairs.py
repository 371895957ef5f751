"""Pairs: the same row about two groups, from dev rows, templates of ours, and files of others."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from palbert.bias.lexicon import Lexicon
from palbert.bias.swapper import Row, Swapper
from palbert.errors import DataError
from palbert.readers import read_chunks

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEMPLATES = Path(__file__).parent / "templates.toml"
PLACE = "{person}"
EEC = ("Sentence", "Template", "Gender", "Race", "Emotion word")
CROWS = ("sent_more", "sent_less", "stereo_antistereo", "bias_type")


@dataclass(frozen=True)
class Pair:
    """A row about one group, and the same row about another."""

    axis: str
    first: str
    """The group of the first row: for dev rows, the one that the row names."""
    second: str
    texts: Row
    other: Row
    base: str
    """What both are made from. Pairs of one base are not independent, so they are resampled together."""
    origin: str
    """"dev", "templates", or the name of a file."""


def pairs_of_rows(rows: Iterable[tuple[str, Row]], swapper: Swapper) -> Iterator[Pair]:
    """Yield each row with each of its swaps.

    Args:
        rows: Ids and texts.
        swapper: Rewrites the rows.
    """
    for number, texts in rows:
        for swap in swapper.swaps(texts):
            yield Pair(swap.axis, swap.source, swap.target, texts, swap.texts, f"dev {number}", "dev")


def pairs_of_templates(lexicon: Lexicon, *, width: int) -> Iterator[Pair]:
    """Yield the templates filled with the phrases of every two groups of an axis; those of other axes are not used.

    Args:
        lexicon: Whose axes are asked for.
        width: 1 for single texts, 2 for pairs.
    """
    values = tomllib.loads(TEMPLATES.read_text("utf-8"))
    templates = [(text,) for text in values["single"]] if width == 1 else [tuple(row) for row in values["pair"]]
    for axis, people in values["people"].items():
        if axis not in lexicon.axes:
            continue
        for number, template in enumerate(templates):
            for place, phrases in enumerate(zip(*people.values(), strict=True)):
                rows = {group: _filled(template, phrase) for group, phrase in zip(people, phrases, strict=True)}
                for first, second in combinations(people, 2):
                    base = f"{axis} {number} {place}"
                    yield Pair(axis, first, second, rows[first], rows[second], base, "templates")


def _filled(template: Row, phrase: str) -> Row:
    capital = phrase[0].upper() + phrase[1:]
    return tuple(
        capital + text.removeprefix(PLACE) if text.startswith(PLACE) else text.replace(PLACE, phrase)
        for text in template
    )


def pairs_of_file(path: Path) -> list[Pair]:
    """Read a file of others: of the Equity Evaluation Corpus, or of CrowS-Pairs, as its columns say.

    EEC (Kiritchenko & Mohammad 2018, arXiv:1805.04508): sentences of the same template, emotion word and, as far as
    they have one, other trait are matched in the order of their persons. CrowS-Pairs (Nangia et al. 2020,
    arXiv:2010.00133): the two sentences of a line.
    """
    columns = _columns(path)
    if all(name in columns for name in CROWS):
        return list(_crows(columns, path.name))
    if all(name in columns for name in EEC[:-1]):
        found = list(_eec(columns, path.name))
        if not found:
            raise DataError(
                f"{path}: no two sentences differ in Gender or Race alone.",
                hint="Each Template needs a sentence for every group.",
            )
        return found
    raise DataError(
        f"{path}: expected the columns of the Equity Evaluation Corpus ({', '.join(EEC[:-1])}) or of CrowS-Pairs "
        f"({', '.join(CROWS)}), found {', '.join(columns)}.",
        hint="Rename the columns, or give another file.",
    )


def _columns(path: Path) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = defaultdict(list)
    for chunk in read_chunks(str(path)):
        for name in chunk.columns:
            columns[name] += [str(text or "").strip() for text in chunk.column(name)]
    if not columns or not len(next(iter(columns.values()))):
        raise DataError(f"{path}: has no rows.", hint="Give another file.")
    return dict(columns)


def _eec(columns: Mapping[str, Sequence[str]], name: str) -> Iterator[Pair]:
    words = columns.get("Emotion word", columns["Template"])
    rows = list(zip(columns["Sentence"], columns["Template"], words, columns["Gender"], columns["Race"], strict=True))
    persons = columns.get("Person", columns["Sentence"])
    for axis, trait, other in (("gender", 3, 4), ("race", 4, 3)):
        groups = [group for group in dict.fromkeys(sorted(row[trait] for row in rows)) if group]
        alike: dict[tuple[str, ...], dict[str, list[tuple[str, str]]]] = defaultdict(lambda: defaultdict(list))
        for row, person in zip(rows, persons, strict=True):
            if row[trait]:
                alike[row[1], row[2], row[other]][row[trait]].append((person, row[0]))
        for base, by_group in alike.items():
            for first, second in combinations(groups, 2):
                matched = zip(sorted(by_group[first]), sorted(by_group[second]), strict=False)
                for (_, sentence), (_, counterpart) in matched:
                    yield Pair(axis, first, second, (sentence,), (counterpart,), f"{axis} {' '.join(base)}", name)


def _crows(columns: Mapping[str, Sequence[str]], name: str) -> Iterator[Pair]:
    """Yield the sentence about the disadvantaged group first: `sent_less` where it goes against a stereotype."""
    for number, row in enumerate(zip(*(columns[each] for each in CROWS), strict=True), 1):
        more, less, direction, kind = row
        if direction not in ("stereo", "antistereo"):
            raise DataError(f"{name}, row {number}: expected stereo or antistereo, found '{direction}'.")
        first, second = (more, less) if direction == "stereo" else (less, more)
        yield Pair(kind, "disadvantaged", "advantaged", (first,), (second,), f"row {number}", name)


def count_left_out(swapper: Swapper) -> dict[str, dict[str, int]]:
    """Return how many rows a swapper has left out, by axis and reason."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for (axis, reason), count in swapper.left_out.items():
        found[axis][reason] += count
    return {axis: dict(reasons.most_common()) for axis, reasons in found.items()}
