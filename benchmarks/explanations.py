"""How far explanations are faithful to a run's answers, and what integrated gradients cost next to one answer.

Faithful: when the words that a method scores highest are deleted, the explained output falls further than when random
words are deleted (comprehensiveness), and it falls less when they alone are kept (sufficiency), as in arXiv:1911.03429.
For a number, "falls" is "moves", and words are ranked by the size of their scores. Words are deleted and not masked, so
that no method is judged by the token it uses itself.

    python benchmarks/explanations.py runs/demo --rows 60 --out benchmarks/results/explanations-2-cores.json
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import machine_facts, write
from numpy.typing import NDArray
from torch import Tensor

from palbert.build import load_split
from palbert.data.ragged import Ragged
from palbert.explanations.explained import Explained
from palbert.explanations.gradients import embeddings_of, gradient_input, integrated_gradients, replaced_words
from palbert.explanations.occlusion import occlusion
from palbert.explanations.row import SPECIAL, Row
from palbert.recipe.load import load_run_recipe
from palbert.runtime.run_folder import RunFolder
from palbert.tasks.spec import Task
from palbert.verbs.predict import Predictor, load

Numbers = NDArray[np.float64]
Scorer = Callable[[Explained, Explained, Row, Predictor], Numbers]
"""Scores the words of a row, given the model that answers and the one with gradients."""

SHARES = (0.1, 0.2, 0.3, 0.5)
"""Of the words, how many are deleted or kept; the mean over these shares counts."""
RANDOM = 4
"""Random orders per row, whose mean the methods are compared with."""
RESAMPLES = 2000


def _zero(explained: Explained, row: Row, predictor: Predictor) -> Tensor:
    return _replaced(explained, row, torch.zeros_like(embeddings_of(explained, row)[0]))


def _mean(explained: Explained, row: Row, predictor: Predictor) -> Tensor:
    return _replaced(explained, row, explained.model.encoder.embeddings.word.weight.mean(0))


def _padding(explained: Explained, row: Row, predictor: Predictor) -> Tensor:
    return replaced_words(explained, row, predictor.tokenizer.padding_id())


def _mask(explained: Explained, row: Row, predictor: Predictor) -> Tensor:
    return replaced_words(explained, row, predictor.tokenizer.neutral_id())


def _replaced(explained: Explained, row: Row, vector: Tensor) -> Tensor:
    embeddings = embeddings_of(explained, row).clone()
    embeddings[torch.from_numpy(row.word_of != SPECIAL)] = vector
    return embeddings


BASELINES = {"mask": _mask, "padding": _padding, "zero": _zero, "mean": _mean}


def _integrated(baseline: str, *, steps: int | None = None) -> Scorer:
    limits = {} if steps is None else {"first_steps": steps, "most_steps": steps}

    def score(plain: Explained, smooth: Explained, row: Row, predictor: Predictor) -> Numbers:
        found = integrated_gradients(smooth, row, BASELINES[baseline](smooth, row, predictor), **limits)
        return row.by_word(found.scores)[0]

    return score


def _gradient(baseline: str) -> Scorer:
    def score(plain: Explained, smooth: Explained, row: Row, predictor: Predictor) -> Numbers:
        return row.by_word(gradient_input(smooth, row, BASELINES[baseline](smooth, row, predictor)).scores)[0]

    return score


def _occlusion(plain: Explained, smooth: Explained, row: Row, predictor: Predictor) -> Numbers:
    return occlusion(plain, row, predictor.tokenizer.neutral_id())[0]


def _occlusion_by_padding(plain: Explained, smooth: Explained, row: Row, predictor: Predictor) -> Numbers:
    return occlusion(plain, row, predictor.tokenizer.padding_id())[0]


METHODS: dict[str, Scorer] = {
    "integrated-gradients": _integrated("padding"),
    "gradient-input": _gradient("padding"),
    "occlusion": _occlusion,
}
"""As users get them."""
OTHERS: dict[str, Scorer] = {
    **{
        f"integrated-gradients, 32 steps, {name}": _integrated(name, steps=32)
        for name in BASELINES
        if name != "padding"
    },
    **{f"gradient-input, {name}": _gradient(name) for name in BASELINES if name != "padding"},
    "occlusion, padding": _occlusion_by_padding,
}
"""With other baselines, to choose between them."""


@dataclass(frozen=True)
class Asked:
    """A task of a run, and rows of it."""

    predictor: Predictor
    task: Task
    rows: list[tuple[str, ...]]

    def explained(self, texts: tuple[str, ...]) -> tuple[Explained, Explained, Callable[[Tensor], Tensor]]:
        """Return the explained number of one row: of the model that answers, of the one with gradients, and alone."""
        explainer = self.predictor.explainer
        tokens = tuple(self.predictor.tokenizer([text]) for text in texts)
        decoded = self.predictor.inference.decode(self.task, self.predictor.inference.outputs(self.task, tokens))
        number = explainer._number(self.task, int(self.task.target.decided(decoded)[0]))
        return explainer._plain(number), explainer._differentiable(number), number


def faithfulness(asked: Asked, scorers: Mapping[str, Scorer], *, seed: int = 0) -> dict[str, Any]:
    """Return, for each method, how much more than random orders it moves the output, with 95 % intervals."""
    draw = np.random.default_rng(seed)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in scorers}
    chance: list[tuple[float, float]] = []
    seconds = dict.fromkeys(scorers, 0.0)
    for texts in asked.rows:
        row = Row.of(asked.task, texts, asked.predictor.tokenizer)
        plain, smooth, number = asked.explained(texts)
        orders = [draw.permutation(len(row.words)) for _ in range(RANDOM)]
        for name, scorer in scorers.items():
            start = time.perf_counter()
            scores = scorer(plain, smooth, row, asked.predictor)
            seconds[name] += time.perf_counter() - start
            orders.append(np.argsort(-(np.abs(scores) if asked.task.target.numeric else scores), kind="stable"))
        falls = _falls(asked, row, number, orders)
        chance.append(tuple(np.mean(falls[:RANDOM], axis=0)))
        for name, fall in zip(scorers, falls[RANDOM:], strict=True):
            found[name].append(fall)
    by_chance = np.array(chance)
    return {
        "rows": len(asked.rows),
        "random": {"comprehensiveness": by_chance[:, 0].mean(), "sufficiency": by_chance[:, 1].mean()},
        "methods": {
            name: {**_compared(np.array(falls), by_chance), "seconds": seconds[name] / len(asked.rows)}
            for name, falls in found.items()
        },
    }


def _falls(
    asked: Asked, row: Row, number: Callable[[Tensor], Tensor], orders: Sequence[NDArray[np.int64]]
) -> list[tuple[float, float]]:
    """Return how far the output falls without the first words of each order, and with them alone."""
    counts = [max(1, round(share * len(row.words))) for share in SHARES]
    kept = [np.arange(len(row.words))]
    for order in orders:
        kept += [part for count in counts for part in (order[count:], order[:count])]
    values = number(asked.predictor.inference.outputs(asked.task, _only(row, kept))).double().numpy()
    falls = values[0] - values[1:]
    if asked.task.target.numeric:
        falls = np.abs(falls)
    by_order = falls.reshape(len(orders), len(SHARES), 2).mean(axis=1)
    return [(float(without), float(alone)) for without, alone in by_order]


def _only(row: Row, kept: Sequence[NDArray[np.int64]]) -> tuple[Ragged, ...]:
    """Return the tokens of a row with only the given words, a row per list."""
    ids = row.copies(1).ids.numpy()
    columns = np.array([word.column for word in row.words])
    lists: list[list[list[int]]] = [[] for _ in row.portion.tokens]
    for words in kept:
        for column, rows in enumerate(lists):
            own = [word for word in words if columns[word] == column]
            rows.append(ids[np.isin(row.word_of, own)].tolist())
    return tuple(Ragged.from_rows(rows) for rows in lists)


def _compared(falls: Numbers, by_chance: Numbers) -> dict[str, Any]:
    """Return both measures, and the gain over chance; with the words alone, a smaller fall is better."""
    gains = np.stack([falls[:, 0] - by_chance[:, 0], by_chance[:, 1] - falls[:, 1]], axis=1)
    draw = np.random.default_rng(0).integers(len(gains), size=(RESAMPLES, len(gains)))
    low, high = np.percentile(gains[draw].mean(axis=1), [2.5, 97.5], axis=0)
    return {
        name: {
            "fall": falls[:, side].mean(),
            "gain": gains[:, side].mean(),
            "low": low[side],
            "high": high[side],
        }
        for side, name in enumerate(("comprehensiveness", "sufficiency"))
    }


def cost(asked: Asked, *, words: int = 16, steps: int = 32, rounds: int = 9) -> dict[str, Any]:
    """Time integrated gradients of a text, all steps in one packed batch, next to one forward pass for its answer."""
    vocabulary = [word.lower() for text in asked.rows for column in text for word in column.split() if word.isalpha()]
    columns = len(asked.task.text)
    texts = tuple(" ".join(vocabulary[side::columns][: words // columns]) for side in range(columns))
    row = Row.of(asked.task, texts, asked.predictor.tokenizer)
    plain, smooth, _ = asked.explained(texts)
    baseline = _padding(smooth, row, asked.predictor)
    work: dict[str, Callable[[], Any]] = {
        "one pass": lambda: plain.values(row.copies(1)),
        "one pass, layers with gradients": lambda: smooth.values(row.copies(1)),
        "integrated gradients": lambda: integrated_gradients(
            smooth, row, baseline, first_steps=steps, most_steps=steps
        ),
        "gradient-input": lambda: gradient_input(smooth, row, baseline),
        "occlusion": lambda: occlusion(plain, row, asked.predictor.tokenizer.neutral_id()),
    }
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for name, once in _rounds(work, rounds):
        start = time.perf_counter()
        once()
        seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    return {
        "words": len(row.words),
        "tokens": row.tokens,
        "steps": steps,
        "seconds": medians,
        "ratio": medians["integrated gradients"] / medians["one pass"],
    }


def _rounds(work: Mapping[str, Callable[[], Any]], rounds: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Warm up, then take turns, so that a change of the machine's speed meets all alike."""
    for once in work.values():
        once()
    for _ in range(rounds):
        yield from work.items()


def measure(run: Path, *, rows: int, others: bool, device: str) -> dict[str, Any]:
    """Measure all tasks of a run on its first dev rows."""
    folder = RunFolder(run)
    predictor = load(run, device=device, precision="fp32")
    datasets = load_split(load_run_recipe(folder.recipe), "dev", predictor.tokenizer)
    scorers = {**METHODS, **(OTHERS if others else {})}
    asked = {
        name: Asked(predictor, predictor.task(name), list(zip(*(column[:rows] for column in data.texts), strict=True)))
        for name, data in datasets.items()
    }
    return {
        "benchmark": "explanations",
        **machine_facts(predictor.inference.device),
        "encoder": load_run_recipe(folder.recipe).encoder.name,
        "shares": SHARES,
        "cost": {name: cost(each) for name, each in asked.items()},
        "tasks": {name: faithfulness(each, scorers) for name, each in asked.items()},
    }


def table(facts: Mapping[str, Any]) -> list[str]:
    """Return the lines of the table on the page of explanations."""
    lines = []
    for task, found in facts["tasks"].items():
        for method, values in found["methods"].items():
            gains = [
                f"{values[name]['gain']:+.2f} ({values[name]['low']:+.2f} … {values[name]['high']:+.2f})"
                for name in ("comprehensiveness", "sufficiency")
            ]
            lines.append(f"| {task} | {method} | {' | '.join(gains)} | {values['seconds']:.2f} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure a run and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path)
    parser.add_argument("--rows", type=int, default=60, help="dev rows of each task")
    parser.add_argument("--others", action="store_true", help="also measure other baselines")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    found = measure(given.run, rows=given.rows, others=given.others, device=given.device)
    for name, task in found["tasks"].items():
        print(f"{name}, {task['rows']} rows; {found['cost'][name]['ratio']:.1f} × one pass")
        for method, values in task["methods"].items():
            both = (values["comprehensiveness"], values["sufficiency"])
            gains = "  ".join(f"{each['gain']:+.3f} ({each['low']:+.3f} … {each['high']:+.3f})" for each in both)
            print(f"  {method:42}  {gains}  {values['seconds']:.2f} s")
    write(found, given.out)


if __name__ == "__main__":
    main()
