"""Derived run: a run folder whose weights were not trained but made from those of other runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from palbert import __version__
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import RunFolderError
from palbert.inference.decisions import Decision, write_decisions
from palbert.recipe.load import dump_recipe, load_run_recipe
from palbert.recipe.paths import data_files, missing_files
from palbert.recipe.schema import Recipe
from palbert.runtime.files import write_text
from palbert.runtime.run_folder import RunFolder
from palbert.training.checkpoint import save_model
from palbert.verbs.evaluate import report_on
from palbert.verbs.origin import Origin
from palbert.verbs.run import Run

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """A run that others are made from."""

    folder: RunFolder
    checkpoint: Path
    recipe: Recipe

    @classmethod
    def of(cls, run: Path, checkpoint: str | None = None) -> Source:
        """Open a run; raise RunFolderError if there is none."""
        folder = RunFolder(run)
        if not folder.recipe.is_file():
            raise RunFolderError(f"{run}: there is no run here.", hint="Give the folder of a trained run.")
        return cls(folder, folder.checkpoint(checkpoint), load_run_recipe(folder.recipe))


def refuse_overlap(out: RunFolder, sources: Sequence[RunFolder]) -> None:
    """Raise RunFolderError if a run would be written over, into or around one of those that it is made from."""
    place = out.path.resolve()
    for source in sources:
        own = source.path.resolve()
        if place == own or place in own.parents or own in place.parents:
            raise RunFolderError(
                f"{out.path}: the run {source.path}, which it would be made from, is here.",
                hint="Give another folder with --out.",
            )


def write_run(
    out: RunFolder,
    sources: Sequence[Source],
    *,
    recipe: Recipe,
    weights: dict[str, Tensor],
    tokenizer: TextTokenizer,
    description: Mapping[str, Any],
    origin: Origin,
    decisions: Mapping[str, Decision] | None = None,
    force: bool,
) -> Run:
    """Write the recipe, `checkpoints/best` and, where the recipe's files are there, predictions and the report."""
    with out.locked("writing"):
        refuse_overlap(out, [source.folder for source in sources])
        out.check_free(resume=None, force=force)
        out.clear(keep_rows=data_files(recipe))
        write_text(out.recipe, dump_recipe(recipe, rows=out.rows))
        best = out.checkpoints / "best"
        described = {**description, "palbert": __version__, "scores": {}, "origin": asdict(origin)}
        save_model(best, weights, tokenizer, description=described)
        if decisions:
            write_decisions(best, decisions)
        missing = missing_files(recipe)
        if missing:
            log.warning("no report: %s. Make it with: palbert evaluate %s", missing[0], out.path)
        else:
            report_on(out, best)
    return Run(out.path)
