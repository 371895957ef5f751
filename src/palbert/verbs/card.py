"""Card: describe a run for others, as a model card for the Hugging Face Hub."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palbert.build import is_encoder
from palbert.errors import DataError, RunFolderError
from palbert.model.pretrained import MINILM, MINILM_HUB_ID
from palbert.recipe.load import load_run_recipe, read_toml
from palbert.recipe.public import public_names, public_recipe
from palbert.recipe.schema import Recipe
from palbert.registry.trust import outside_names, trusting
from palbert.reporting.card import (
    GRID,
    WATTS,
    AloneScore,
    Card,
    CardTask,
    DataFile,
    Footprint,
    check_licence,
    render_card,
)
from palbert.reporting.wording import Score
from palbert.runtime.files import AnyPath, new_file, refuse_to_replace
from palbert.runtime.hub import HubId
from palbert.runtime.json_objects import read_object
from palbert.runtime.run_folder import RunFolder
from palbert.tasks.sets import files_of
from palbert.tasks.sources import Split
from palbert.tasks.spec import Task
from palbert.training.checkpoint import read_description
from palbert.verbs.compare import compare
from palbert.verbs.failings import failings_of
from palbert.verbs.origin import described_origin
from palbert.verbs.report_file import read_report

BIAS = Path("audits") / "bias" / "bias.json"
"""Where a run keeps what an audit found about it."""


@dataclass(frozen=True)
class Evaluated:
    """A checkpoint of a run with the report about it."""

    run: RunFolder
    checkpoint: Path
    place: RunFolder
    """Where the report and the predictions are."""
    summary: dict[str, Any]
    """The content of report.json."""
    recipe: Recipe


class CardText(str):
    """A model card; a notebook shows it as a page."""

    __slots__ = ()

    def _repr_markdown_(self) -> str:
        return self.partition("\n---\n")[2].lstrip()  # without the metadata


def card(
    run: AnyPath,
    *,
    out: AnyPath | None = None,
    checkpoint: str | None = None,
    name: str | None = None,
    licence: str | None = None,
    examples: int = 0,
    alone: Sequence[AnyPath] = (),
    watts: float | None = None,
    grid: float | None = None,
    force: bool = False,
    trust: bool = False,
) -> CardText:
    """Return the model card of a run: Markdown with the Hub's metadata; write it to a file if one is given.

    It quotes no rows of the data and names no folders of this machine.

    Args:
        run: The run folder.
        out: The file to write.
        checkpoint: "best", "last" or "best-<task>", which must have been evaluated; the best unless given.
        name: What users will call the run, such as `owner/name`; the name of its folder unless given.
        licence: The identifier of the model's licence, such as "apache-2.0".
        examples: How many of the worst errors to quote for each task: their texts become public with the card.
        alone: Runs that were trained for one task each; the card compares their scores with this run's.
        watts: The power of the machine that trained, for the estimate of energy; a usual one of its kind unless given.
        grid: Grams of CO2 equivalents per kWh where it trained; about the world's mean unless given.
        force: Replace a file that exists.
        trust: Whether code from outside palbert that the run names may be imported.

    Raises:
        RunFolderError: The checkpoint has no report.
    """
    check_licence(licence)
    _check_numbers(examples, watts, grid)
    if out is not None and not force:
        refuse_to_replace(Path(out))
    with trusting(trust):
        found = evaluated(run, checkpoint)
        scores = _alone_scores(found, alone, trust=trust)
        text = card_of(found, name=name, licence=licence, examples=examples, alone=scores, watts=watts, grid=grid)
    if out is not None:
        with new_file(Path(out), replace=force) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return CardText(text)


def _check_numbers(examples: int, watts: float | None, grid: float | None) -> None:
    if examples < 0:
        raise DataError(f"examples: expected a number from 0, found {examples}.")
    for name, value in (("watts", watts), ("grid", grid)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise DataError(f"{name}: expected a number from 0, found {value}.")


def evaluated(run: AnyPath, checkpoint: str | None) -> Evaluated:
    """Return a checkpoint with the report about it; raise RunFolderError if there is none, or it is about another."""
    folder = RunFolder(Path(run))
    if is_encoder(folder.path):
        raise RunFolderError(f"{folder.path}: is an encoder, which has no tasks.", hint="Give the folder of a run.")
    chosen = folder.checkpoint(checkpoint)
    if chosen == folder.path:
        raise RunFolderError(f"{chosen}: is a checkpoint.", hint="Give the folder of its run, and --checkpoint.")
    place = folder if chosen == folder.checkpoint() else RunFolder(folder.evaluations / chosen.name)
    file = place.report("json")
    option = "" if place is folder else f" --checkpoint {chosen.name}"
    hint = f"Make it with: palbert evaluate {folder.path}{option}"
    if not file.is_file():
        raise RunFolderError(f"{file}: no such file, so nothing says how good the checkpoint is.", hint=hint)
    summary = read_report(file, hint=hint)
    step = read_description(chosen).get("step")
    if summary.get("step", step) != step:
        raise RunFolderError(
            f"{file}: is about step {summary['step']}, and {chosen.name} is of step {step} by now.", hint=hint
        )
    return Evaluated(folder, chosen, place, summary, load_run_recipe(folder.recipe))


def _alone_scores(found: Evaluated, alone: Sequence[AnyPath], *, trust: bool) -> list[AloneScore]:
    """Compare the tasks of a run with runs that have one task each, on the same rows."""
    scores = []
    for run in alone:
        tasks = load_run_recipe(RunFolder(Path(run)).recipe).tasks
        if len(tasks) != 1:
            raise DataError(
                f"{run}: expected a run of one task, found {len(tasks)}: {', '.join(tasks)}.",
                hint="palbert compare shows runs of several tasks next to each other.",
            )
        [each] = compare([run, found.place.path], split=str(found.summary.get("split", "dev")), trust=trust)
        ends = (each.difference.low, each.difference.high)
        scores.append(AloneScore(each.task, each.metric, each.reference_score, each.score, ends))
    return scores


def card_of(
    found: Evaluated,
    *,
    name: str | None = None,
    licence: str | None = None,
    examples: int = 0,
    alone: Sequence[AloneScore] = (),
    watts: float | None = None,
    grid: float | None = None,
) -> str:
    """Return the card of an evaluated checkpoint; the arguments are those of `card`."""
    recipe, summary = found.recipe, found.summary
    public = public_recipe(recipe)
    made_of = recipe.provenance
    tasks = [_task(found, task, examples) for task in recipe.tasks.values() if task.name in summary["metrics"]]
    if not tasks:
        raise RunFolderError(f"{found.place.path}: its report has no task of its recipe.")
    return render_card(
        Card(
            name=name or found.run.path.resolve().name,
            description=recipe.description,
            encoder=public.encoder.name,
            base_model=_base_model(recipe),
            licence=licence,
            summary=summary,
            tasks=tasks,
            versions=made_of.versions if made_of else {},
            encoder_sha256=made_of.encoder_sha256 if made_of else "",
            footprint=_footprint(summary, watts, grid),
            notes=[_without_folders(note, recipe) for note in summary.get("notes", ())],
            alone=alone,
            bias=_found(found.run.path / BIAS),
            datasets=_hub_data(recipe),
            needs_trust=list(outside_names(read_toml(found.run.recipe))),
            made_by=described_origin(summary["origin"]) if "origin" in summary else "",
        )
    )


def _task(found: Evaluated, task: Task, examples: int) -> CardTask:
    """Return what the card says about a task."""
    summary, split = found.summary, str(found.summary.get("split", "dev"))
    test = summary.get("test") or {}
    main = str(summary["metrics"][task.name])
    baselines = {
        name: float(values[task.name])
        for name, values in (summary.get("baselines") or {}).items()
        if task.name in values
    }
    scores = _scores(summary, task.name, main)
    return CardTask(
        name=task.name,
        kind=task.kind,
        many=task.target.many,
        classes=tuple(task.target.classes),
        range=task.range,
        max_length=task.max_length,
        metric=main,
        rows={
            **{key: int(count) for key, count in summary.get("rows", {}).get(task.name, {}).items()},
            **({"test": int(test["rows"][task.name])} if task.name in test.get("rows", {}) else {}),
        },
        files=_files(found.recipe, task),
        scores=scores,
        baselines=baselines,
        test=_scores(test, task.name, main) if task.name in test.get("tasks", {}) else (),
        failings=failings_of(found.place, task, scores, baselines, split=split, examples=examples),
    )


def _scores(summary: Mapping[str, Any], task: str, main: str) -> list[Score]:
    """Return a task's scores, the main one first, which has an interval."""
    values = summary["tasks"][task]
    ends = summary.get("intervals", {}).get(task, {})
    first = [Score(main, float(values[main]), ends.get("low"), ends.get("high"))]
    return first + [Score(metric, float(value)) for metric, value in values.items() if metric != main]


def _files(recipe: Recipe, task: Task) -> list[DataFile]:
    """Return a task's files by their public names, with their hashes as training has recorded them."""
    names = public_names(recipe)
    hashes = recipe.provenance.data_sha256 if recipe.provenance else {}
    splits: tuple[Split, ...] = ("train", "dev", "test")
    files = [(source.path, str(split)) for split in splits for source in files_of(task, split).sources]
    files += [(source.path, f"train ({name})") for name, each in task.extra.items() for source in each.train]
    return [DataFile(names[path], split, hashes.get(path, "")) for path, split in dict.fromkeys(files)]


def _base_model(recipe: Recipe) -> str | None:
    """Return the encoder's name on the Hub; None if it is from elsewhere."""
    name = recipe.encoder.name
    if name == MINILM:
        return MINILM_HUB_ID
    hub_id = HubId.parse(name)
    return hub_id.repository if hub_id and not Path(name).is_absolute() else None


def _hub_data(recipe: Recipe) -> list[str]:
    """Return the data sets of the Hub that a recipe names."""
    named = [path[3:].partition(":")[0] for path in public_names(recipe) if path.startswith("hf:")]
    return list(dict.fromkeys("/".join(each.split("/")[:2]) for each in named))


def _footprint(summary: Mapping[str, Any], watts: float | None, grid: float | None) -> Footprint:
    device = str(summary.get("device", "cpu")).partition(":")[0]
    return Footprint(
        seconds=float(summary.get("seconds") or 0.0),
        device=device,
        watts=WATTS.get(device, WATTS["cpu"]) if watts is None else watts,
        grid=GRID if grid is None else grid,
        watts_are_given=watts is not None,
        grid_is_given=grid is not None,
    )


def _without_folders(text: str, recipe: Recipe) -> str:
    """Return a sentence that names files without the folders that they are in."""
    for path, name in public_names(recipe).items():
        text = text.replace(path, name)
    return text


def _found(file: Path) -> dict[str, Any] | None:
    """Return what an audit or a comparison found; None if none was made."""
    if not file.is_file():
        return None
    return read_object(file, raises=RunFolderError, hint="Make it again, or remove it.")
