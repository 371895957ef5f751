"""Audit of bias: whether a run's answers change when a text names another group, and how well it ranks each group."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from palbert import __version__
from palbert.bias.lexicon import Lexicon, read_lexicon
from palbert.bias.pairs import Pair, count_left_out, pairs_of_file, pairs_of_rows, pairs_of_templates
from palbert.bias.shifts import group_figures
from palbert.bias.subgroups import subgroup_areas
from palbert.bias.swapper import Swapper
from palbert.data.dataset import Dataset
from palbert.errors import DataError, PalbertError
from palbert.options import check_number
from palbert.registry.trust import trusting
from palbert.reporting.bias import LIMITS, bias_summary, bias_table, render_bias
from palbert.runtime.files import AnyPath, sha256
from palbert.runtime.progress import track
from palbert.runtime.run_folder import RunFolder
from palbert.tasks.spec import Task
from palbert.verbs.audit_bias_files import place_of, show_in_report, write_audit
from palbert.verbs.audit_bias_rows import Asked, dev_rows, rows_sample
from palbert.verbs.predict import Predictor, load

ROWS = 5000
"""Dev rows per task that are audited unless another number is given."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class BiasAudit:
    """What an audit found, and where it was written."""

    folder: Path
    """bias.json, swaps.csv and bias.html."""
    summary: dict[str, Any]
    """The content of bias.json."""

    def __repr__(self) -> str:
        return f"{bias_table(self.summary).text()}\nEverything: {self.folder / 'bias.html'}"

    def _repr_html_(self) -> str:
        links = {
            "The whole audit": self.folder / "bias.html",
            "All pairs with their answers": self.folder / "swaps.csv",
        }
        return bias_table(self.summary).html(links=links)


def audit_bias(
    run: AnyPath,
    *,
    out: str | PathLike[str] | None = None,
    tasks: Sequence[str] | None = None,
    files: Sequence[str | PathLike[str]] = (),
    lexicon: str | PathLike[str] | None = None,
    rows: int = ROWS,
    checkpoint: str | None = None,
    device: str = "auto",
    seed: int = 0,
    spreadsheet_safe: bool = False,
    force: bool = False,
    trust: bool = False,
) -> BiasAudit:
    """Rewrite texts for other groups of people, and measure how far each task's answers change with that.

    Dev rows that name a group, and templates of palbert's own, are rewritten by a lexicon; a row is left out where that
    is not safe. The result is written to RUN/audits/bias, or to `out`.

    Args:
        run: The run folder.
        out: Another folder for the result.
        tasks: The tasks to audit; all unless given.
        files: Sentences of others, in the form of the Equity Evaluation Corpus or of CrowS-Pairs.
        lexicon: A TOML file with axes and words of one's own, which come before palbert's.
        rows: How many dev rows of each task are read; a random choice where there are more.
        checkpoint: "best", "last" or "best-<task>"; the best unless given.
        device: "auto", "cpu", "cuda" or "mps"; numbers are float32 everywhere, since shifts are small.
        seed: Of the choice of rows, and of intervals and p-values.
        spreadsheet_safe: Escape texts in swaps.csv that a spreadsheet program may take for a formula.
        force: Replace an audit in `out`.
        trust: Whether code from outside palbert that the run names may be imported.
    """
    start = time.perf_counter()
    folder = RunFolder(Path(run))
    chosen = folder.checkpoint(checkpoint)
    place = place_of(folder, out, force=force)
    limit = int(check_number("rows", rows, least=1))
    others = {Path(path).name: pairs_of_file(Path(path)) for path in files}
    plan = _Plan(read_lexicon(lexicon), others, limit, seed)
    with trusting(trust):
        predictor = load(run, checkpoint=checkpoint, device=device, precision="fp32")
        found = _audit_tasks(folder, predictor, tasks, plan)
    summary = {**found.summary(), **_facts(chosen, lexicon, seed), "seconds": round(time.perf_counter() - start, 2)}
    with folder.locked("auditing"):
        _write(folder, place, summary, found.pairs, spreadsheet_safe=spreadsheet_safe)
    return BiasAudit(place, summary)


def _facts(checkpoint: Path, lexicon: str | PathLike[str] | None, seed: int) -> dict[str, Any]:
    """Return what was audited, and how."""
    own = {"name": str(lexicon), "sha256": sha256(Path(lexicon))} if lexicon is not None else "palbert"
    return {
        "palbert": __version__,
        "checkpoint": checkpoint.name,
        "weights": sha256(checkpoint / "model.safetensors"),
        "correction": "Holm, within each task",
        "level": 0.95,
        "seed": seed,
        "lexicon": own,
        "limits": list(LIMITS),
    }


@dataclass(frozen=True)
class _Plan:
    """What every task is audited with."""

    lexicon: Lexicon
    files: Mapping[str, Sequence[Pair]]
    """Pairs of others, by the name of their file; only tasks of single texts are asked about them."""
    rows: int
    seed: int


@dataclass(frozen=True)
class _Audited:
    """What was found for each task."""

    figures: Mapping[str, dict[str, Any]]
    pairs: Mapping[str, Asked]
    skipped: Mapping[str, str]
    """Why tasks could not be audited."""
    rows_from: str

    def summary(self) -> dict[str, Any]:
        """Return the first part of bias.json."""
        skipped = {"skipped": dict(self.skipped)} if self.skipped else {}
        return {"tasks": dict(self.figures), "rows_from": self.rows_from, **skipped}


def _audit_tasks(folder: RunFolder, predictor: Predictor, tasks: Sequence[str] | None, plan: _Plan) -> _Audited:
    """Audit the tasks that are asked for; raise DataError if none can be."""
    wanted = list(predictor.tasks.values()) if tasks is None else [predictor.task(name) for name in tasks]
    dev = dev_rows(folder, [task.name for task in wanted], predictor.tokenizer)
    audited, skipped = {}, {}
    for task in wanted:
        rows = rows_sample(dev.get(task.name), plan.rows, plan.seed)
        try:
            audited[task.name] = _audit_task(predictor, task, rows, plan)
        except PalbertError as error:
            log.warning("%s is not audited: %s", task.name, error.message)
            skipped[task.name] = error.message
    if not audited:
        raise DataError(f"{folder.path}: no task can be audited.", hint=" ".join(skipped.values()) or None)
    figures = {name: each for name, (each, _) in audited.items()}
    pairs = {name: asked for name, (_, asked) in audited.items()}
    return _Audited(figures, pairs, skipped, _rows_from(dev, figures, plan.rows))


def _write(
    folder: RunFolder, place: Path, summary: dict[str, Any], pairs: Mapping[str, Asked], *, spreadsheet_safe: bool
) -> None:
    title = folder.path.resolve().name
    page = render_bias(summary, title=title, examples={name: asked.examples() for name, asked in pairs.items()})
    lines = [line for name, asked in pairs.items() for line in asked.lines(name)]
    content = json.dumps(summary, indent=1, ensure_ascii=False) + "\n"
    write_audit(place, content, page, lines, spreadsheet_safe=spreadsheet_safe)
    if place == folder.bias:
        show_in_report(folder, bias_summary(summary))


def _rows_from(dev: Mapping[str, Dataset], audited: Mapping[str, Any], rows: int) -> str:
    """Say which rows were audited."""
    found = [name for name in audited if name in dev]
    if not found:
        return "templates"
    cut = any(len(dev[name]) > rows for name in found)
    limit = f" (up to {rows:,} of each task, chosen at random)" if cut else ""
    missing = sorted(set(audited) - set(found))
    return f"dev rows{limit} and templates" + (f"; templates only for {', '.join(missing)}" if missing else "")


def _audit_task(predictor: Predictor, task: Task, dev: Dataset | None, plan: _Plan) -> tuple[dict[str, Any], Asked]:
    """Return the figures of a task for bias.json, and all of its pairs with their answers."""
    swapper = Swapper(plan.lexicon)
    rows = [] if dev is None else list(zip(dev.ids, zip(*dev.texts, strict=True), strict=True))
    shown = track(rows, description=f"swapping words of {task.name}", total=len(rows))
    width = len(task.text)
    pairs = [*pairs_of_rows(shown, swapper), *pairs_of_templates(plan.lexicon, width=width)]
    files = plan.files if width == 1 else {}
    asked = Asked.of(predictor, task, [*pairs, *(pair for each in files.values() for pair in each)])
    own = asked.part(0, len(pairs))
    order = {name: axis.groups for name, axis in plan.lexicon.axes.items()}
    figures: dict[str, Any] = {
        "unit": asked.unit,
        "flip": asked.flip,
        **own.overall(),
        "groups": group_figures(own.pairs, own.answers, order=order, seed=plan.seed),
        "left_out": count_left_out(swapper),
        "rows": len(rows),
        **_of_files(asked, files, begin=len(pairs), seed=plan.seed),
    }
    positive, scores, names = asked.for_areas(predictor, dev)
    if names:
        figures["subgroups"] = subgroup_areas([swapper.groups(texts) for _, texts in rows], positive, scores, names)
    return figures, asked


def _of_files(asked: Asked, files: Mapping[str, Sequence[Pair]], *, begin: int, seed: int) -> dict[str, Any]:
    """Return the figures of each file of others, whose pairs begin at a place."""
    found = {}
    for name, pairs in files.items():
        part = asked.part(begin, begin + len(pairs))
        found[name] = {**part.overall(), "groups": group_figures(part.pairs, part.answers, order={}, seed=seed)}
        begin += len(pairs)
    return {"files": found} if found else {}
