"""Merge: average the weights of runs that started from the same encoder (Wortsman et al. 2022, arXiv:2203.05482)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from palbert.build import Machine, OpenedCheckpoint, build_inference, evaluate_now, load_split, open_checkpoint
from palbert.build.keep import COMPARED
from palbert.data.dataset import Dataset
from palbert.errors import DataError, RunFolderError
from palbert.model.pretrained import weights_sha256
from palbert.recipe.load import load_run_recipe
from palbert.registry.trust import trusting
from palbert.reporting.display import Table
from palbert.runtime.files import AnyPath, sha256
from palbert.runtime.progress import track
from palbert.runtime.run_folder import RunFolder
from palbert.runtime.visible import visible
from palbert.training.checkpoint import read_description, read_weights
from palbert.training.trainer import Evaluation
from palbert.verbs.derived_run import Source, refuse_overlap, write_run
from palbert.verbs.origin import Ingredient, Origin
from palbert.verbs.run import Run

UNIFORM, GREEDY = "uniform soup", "greedy soup"
BIAS = {
    GREEDY: "The greedy soup was chosen on these dev rows, so its score here is too good by an unknown amount.",
    UNIFORM: "The checkpoint of each run was chosen on these dev rows, so all scores here are slightly too high.",
}
"""What the dev scores do not show, by how the written soup was made."""
OTHER_ROWS = "Score it on rows that were not used for any choice: palbert evaluate {out} --split test"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Scored:
    """The dev scores of a run or of a soup."""

    name: str
    evaluation: Evaluation
    kept: bool = True
    """Whether the run is in the soup that was written."""


@dataclass(frozen=True, repr=False)
class Merged:
    """A soup that was written, and the scores of all runs and soups on dev."""

    run: Run
    method: str
    scores: list[Scored]
    """The runs, the best first, then the uniform and the greedy soup."""
    note: str
    """What the scores do not show."""

    @property
    def table(self) -> Table:
        """The scores as a table; the runs that are in the soup are marked."""
        tasks = list(self.scores[0].evaluation.tasks)
        rows = []
        for each in self.scores:
            main = [next(iter(each.evaluation.tasks[task].values())) for task in tasks]
            mark = (
                "written"
                if each.name == self.method
                else ""
                if each.name in (UNIFORM, GREEDY)
                else ("in the soup" if each.kept else "left out")
            )
            rows.append([each.name, f"{each.evaluation.overall:.4f}", *(f"{score:.4f}" for score in main), mark])
        return Table(["dev", "overall", *tasks, ""], rows)

    def __repr__(self) -> str:
        return visible(f"{self.table.text()}\n{self.note}\nRun: {self.run.path}")


def merge(
    runs: Sequence[AnyPath],
    *,
    out: AnyPath,
    greedy: bool = True,
    checkpoint: str | None = None,
    force: bool = False,
    trust: bool = False,
) -> Merged:
    """Average the weights of runs with one shape and one start, and write the soup as a run.

    Args:
        runs: Two or more runs from the same pretrained encoder with the same tasks, such as several seeds of a recipe.
        out: The folder of the new run.
        greedy: Start with the best run on dev and add the next ones as long as the overall score does not fall;
            otherwise all runs are averaged.
        checkpoint: Which checkpoint of each run to take; the best unless given.
        force: Replace the run in `out`.
        trust: Whether code from outside palbert that the runs name may be imported.

    Raises:
        DataError: The runs do not fit together.
    """
    with trusting(trust):
        if len({Path(run).resolve() for run in runs}) < max(2, len(runs)):
            raise DataError("Expected two or more different runs.", hint="palbert merge runs/a runs/b --out runs/soup")
        sources, folder = [Source.of(Path(run), checkpoint) for run in runs], RunFolder(Path(out))
        refuse_overlap(folder, [source.folder for source in sources])
        folder.check_free(resume=None, force=force)
        for other in sources[1:]:
            refuse_different(sources[0], other)
        dev_scores = _DevScores(sources[0])
        scores, soups, kept = _score_all(dev_scores, sources)
        method = GREEDY if greedy else UNIFORM
        used = kept if greedy else sources
        run = write_run(
            folder,
            sources,
            recipe=sources[0].recipe,
            weights=soups[method],
            tokenizer=dev_scores.opened.tokenizer,
            description=dev_scores.opened.description,
            origin=Origin("merge", [Ingredient.of(source.checkpoint) for source in used]),
            force=force,
        )
    names = {str(source.folder.path) for source in used}
    shown = [replace(each, kept=each.name in names) for each in scores]
    return Merged(run, method, shown, f"{BIAS[method]} {OTHER_ROWS.format(out=folder.path)}")


def _score_all(
    dev_scores: _DevScores, sources: Sequence[Source]
) -> tuple[list[Scored], dict[str, dict[str, Tensor]], list[Source]]:
    """Return all scores, the weights of both soups, and the runs in the greedy one."""
    told = track(sources, description="scoring runs", total=len(sources))
    scored = [(dev_scores.score(read_weights(source.checkpoint)), source) for source in told]
    scored.sort(key=lambda pair: -pair[0].overall)  # stable: of equal runs, the first given one comes first
    uniform = average(source.checkpoint for _, source in scored)
    best, kept = scored[0][0], [scored[0][1]]
    for _, source in scored[1:]:
        tried = dev_scores.score(average(each.checkpoint for each in [*kept, source]))
        if tried.overall >= best.overall:  # recipe 1 of the paper: the score may stay, but not fall
            best, kept = tried, [*kept, source]
    rows = [Scored(str(source.folder.path), evaluation) for evaluation, source in scored]
    rows += [Scored(UNIFORM, dev_scores.score(uniform)), Scored(GREEDY, best)]
    return rows, {UNIFORM: uniform, GREEDY: average(source.checkpoint for source in kept)}, kept


class _DevScores:
    """Scores weights on the dev rows of a run."""

    def __init__(self, source: Source) -> None:
        self.recipe = load_run_recipe(source.folder.recipe, check_files=True)
        self.machine = Machine.for_recipe(self.recipe)
        self.opened: OpenedCheckpoint = open_checkpoint(source.checkpoint, self.machine)
        self.dev: dict[str, Dataset] = load_split(self.recipe, "dev", self.opened.tokenizer)

    def score(self, weights: dict[str, Tensor]) -> Evaluation:
        """Score weights on dev."""
        self.opened.model.load_state_dict(weights)
        inference = build_inference(self.opened.model, tokenizer=self.opened.tokenizer, machine=self.machine)
        return evaluate_now(inference, self.recipe, self.dev)


def average(checkpoints: Iterable[Path]) -> dict[str, Tensor]:
    """Return the mean of the weights of checkpoints, added up in float64."""
    total: dict[str, Tensor] = {}
    count, kinds = 0, {}
    for count, checkpoint in enumerate(checkpoints, 1):  # noqa: B007
        for name, value in read_weights(checkpoint).items():
            kinds[name] = value.dtype
            total[name] = total[name] + value.double() if name in total else value.double()
    return {name: (value / count).to(kinds[name]) for name, value in total.items()}


def refuse_different(one: Source, other: Source) -> None:
    """Raise DataError if the weights of two runs cannot be averaged."""
    first, second = (read_description(each.checkpoint) for each in (one, other))
    for what, key in (("encoders", "encoder"), ("adapters", "adapters"), ("relational layers", "relation")):
        if _plain(first[key]) != _plain(second[key]):
            raise _refusal(one, other, f"have different {what}")
    if list(first["tasks"]) != list(second["tasks"]):
        raise _refusal(
            one, other, f"have different tasks: {', '.join(first['tasks'])} and {', '.join(second['tasks'])}"
        )
    for name, task in first["tasks"].items():
        differing = [key for key in COMPARED if task.get(key) != second["tasks"][name].get(key)]
        if differing:
            raise _refusal(one, other, f"have a different {differing[0]} of '{name}'")
        if one.recipe.tasks[name].held_out != other.recipe.tasks[name].held_out:
            raise _refusal(one, other, f"hold different rows of '{name}' out as dev, so one has trained on the other's")
    if sha256(one.checkpoint / "tokenizer.json") != sha256(other.checkpoint / "tokenizer.json"):
        raise _refusal(one, other, "have different tokenizers")
    if start_of(one) != start_of(other):
        raise _refusal(one, other, "started from different weights, between which an average is no model")


def _plain(value: Any) -> Any:
    """Leave out what does not change the shape of a model."""
    return {key: each for key, each in value.items() if "dropout" not in key} if isinstance(value, dict) else value


def _refusal(one: Source, other: Source, problem: str) -> DataError:
    return DataError(
        f"{one.folder.path} and {other.folder.path} {problem}.",
        hint="Merge runs of one recipe, such as: palbert train my.toml --set seed=1 --out runs/my-1",
    )


def start_of(source: Source) -> str:
    """Return the hash of the weights that a run's encoder started from: its own pretraining, or the named encoder."""
    if source.folder.pretrained.is_dir():
        return weights_sha256(source.folder.pretrained)
    made_of = source.recipe.provenance
    if made_of is None or not made_of.encoder_sha256:
        raise RunFolderError(
            f"{source.folder.recipe}: says nothing about the weights that the run started from.",
            hint="Train it again with this version of palbert.",
        )
    return made_of.encoder_sha256
