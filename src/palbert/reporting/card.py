"""The model card of a run: what it is for, how good it is, where it fails; Markdown with metadata for the Hub."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from palbert.errors import DataError, first_line
from palbert.metrics import ClassScores
from palbert.reporting.markdown import render_markdown
from palbert.reporting.panels import ErrorRow
from palbert.reporting.wording import Score

LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]*")
"""An identifier of the Hub, such as apache-2.0."""
WATTS = {"cpu": 100.0, "cuda": 400.0, "mps": 40.0}
"""The power of a machine at work, by device, where nobody has measured it."""
GRID = 480.0
"""Grams of CO2 equivalents per kWh, about the mean of the world's electricity."""
NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
CLASSIFICATION, SIMILARITY = "text-classification", "sentence-similarity"


@dataclass(frozen=True)
class Footprint:
    """What training took: measured seconds, and an estimate that follows from two assumptions."""

    seconds: float
    device: str
    watts: float
    grid: float
    """Grams of CO2 equivalents per kWh."""
    watts_are_given: bool = False
    grid_is_given: bool = False

    @property
    def kilowatt_hours(self) -> float:
        """The estimated energy."""
        return self.seconds / 3600 * self.watts / 1000

    @property
    def grams(self) -> float:
        """The estimated emissions, in grams of CO2 equivalents."""
        return self.kilowatt_hours * self.grid


@dataclass(frozen=True)
class DataFile:
    """A file that rows came from, by its public name."""

    name: str
    split: str
    sha256: str


@dataclass(frozen=True)
class Slice:
    """Some of the rows, and how good the predictions for them are."""

    name: str
    rows: int
    value: float


@dataclass(frozen=True)
class Failings:
    """What the error analysis of a task found; nothing of it quotes a row, except examples."""

    summary: str
    classes: Sequence[tuple[str, ClassScores]]
    slices: Sequence[Slice]
    slice_measure: str
    """What the value of a slice is."""
    measure: str
    """What the last column of the examples is."""
    examples: Sequence[ErrorRow] = ()


@dataclass(frozen=True)
class CardTask:
    """A task as its card shows it."""

    name: str
    kind: str
    many: bool
    """Whether an answer is any number of classes."""
    classes: tuple[str, ...]
    range: tuple[float, float] | None
    max_length: int
    metric: str
    rows: Mapping[str, int]
    files: Sequence[DataFile]
    scores: Sequence[Score]
    baselines: Mapping[str, float]
    """The main metric, by baseline."""
    test: Sequence[Score]
    """Scores on test rows; none where no test rows were scored."""
    failings: Failings | None

    @property
    def pipeline(self) -> str:
        """The Hub's name for such a task."""
        return SIMILARITY if self.kind == "pair" and not self.classes else CLASSIFICATION


@dataclass(frozen=True)
class AloneScore:
    """A task's score next to that of a model which was trained for it alone."""

    task: str
    metric: str
    alone: float
    together: float
    interval: tuple[float, float]
    """Of the difference, together minus alone."""


@dataclass(frozen=True)
class Card:
    """Everything that the card of a run shows."""

    name: str
    """How users call the run: `owner/name`, or its folder."""
    description: str
    encoder: str
    base_model: str | None
    """The encoder on the Hub, where it is from there."""
    licence: str | None
    summary: Mapping[str, Any]
    """The content of report.json."""
    tasks: Sequence[CardTask]
    versions: Mapping[str, str]
    encoder_sha256: str
    footprint: Footprint
    notes: Sequence[str] = ()
    alone: Sequence[AloneScore] = ()
    bias: Mapping[str, Any] | None = None
    datasets: Sequence[str] = ()
    """The data sets of the Hub that it was trained on."""
    needs_trust: Sequence[str] = ()
    """Code from outside palbert that the run names."""
    made_by: str = ""
    """The command that made the run from others, and these; empty for a run that was trained from an encoder."""

    @property
    def parameters(self) -> float:
        """How many parameters the model has; 0 if nobody has counted them."""
        counts = self.summary.get("parameters") or {}
        return float(sum(sum(each.values()) if isinstance(each, Mapping) else each for each in counts.values()))

    @property
    def callable_name(self) -> str:
        """The name for commands: what could end a string or a command there is not shown."""
        return self.name if NAME.fullmatch(self.name) else "RUN"


def render_card(card: Card) -> str:
    """Return a card as Markdown with the Hub's metadata in front."""
    first = card.tasks[0]
    body = render_markdown(
        "card.md.j2",
        card=card,
        usage={"name": Markup(card.callable_name), "task": Markup(first.name), "pair": first.kind == "pair"},
        splits=[split for split in ("train", "dev", "test") if any(split in task.rows for task in card.tasks)],
        baselines=list(dict.fromkeys(name for task in card.tasks for name in task.baselines)),
        bias=_bias(card.bias),
    )
    text = f"---\n{metadata(card).to_yaml(line_break=chr(10))}\n---\n\n{body}"
    check_card(text)
    return text


def metadata(card: Card) -> Any:
    """Return the Hub's metadata of a card, with a model index of all scores."""
    from huggingface_hub import ModelCardData

    pipelines = [task.pipeline for task in card.tasks]
    made = card.footprint
    emissions = {
        "emissions": float(f"{made.grams:.3g}"),
        "source": f"estimated by palbert from {made.seconds:.0f} s measured, "
        f"{made.watts:g} W {'given' if made.watts_are_given else 'assumed'}, "
        f"{made.grid:g} g/kWh {'given' if made.grid_is_given else 'assumed'}",
        "training_type": "fine-tuning",
        "hardware_used": made.device,
    }
    return ModelCardData(
        license=card.licence,
        library_name="palbert",
        pipeline_tag=CLASSIFICATION if CLASSIFICATION in pipelines else SIMILARITY,
        tags=list(dict.fromkeys(["palbert", "multi-task", *pipelines])),
        base_model=card.base_model,
        datasets=list(card.datasets) or None,
        metrics=list(dict.fromkeys(score.metric for task in card.tasks for score in task.scores)),
        model_name=card.name.rpartition("/")[2],
        eval_results=[found for task in card.tasks for found in _results(task, str(card.summary.get("split", "dev")))],
        co2_eq_emissions=emissions if made.seconds else None,  # of runs that were made without training, none
    )


def _results(task: CardTask, split: str) -> list[Any]:
    """Return a task's scores for the Hub's model index, where each task is listed as a separate data set."""
    from huggingface_hub import EvalResult

    names = ", ".join(dict.fromkeys(file.name for file in task.files)) or task.name
    kind = next((each.name[3:].partition(":")[0] for each in task.files if each.name.startswith("hf:")), None)
    return [
        EvalResult(
            task_type=task.pipeline,
            task_name=task.name,
            dataset_type=kind or re.sub(r"[^\w.-]+", "-", task.name),
            dataset_name=names,
            dataset_config=task.name,
            dataset_split=part,
            metric_type=score.metric,
            metric_name=f"{task.name} {score.metric}",
            metric_value=score.value,
        )
        for part, scores in ((split, task.scores), ("test", task.test))
        for score in scores
        if math.isfinite(score.value)
    ]


def check_card(text: str, where: str = "The model card") -> None:
    """Raise DataError unless a card begins with metadata that the Hub accepts, as far as that is known offline."""
    from huggingface_hub import ModelCard
    from yaml import YAMLError  # which huggingface_hub brings

    if not text.lstrip("\ufeff").startswith("---\n"):
        raise DataError(
            f"{where}: does not begin with metadata between lines of ---.", hint="Begin with that of a card."
        )
    try:
        values = ModelCard(text).data.to_dict()  # type: ignore[no-untyped-call]
    except (ValueError, TypeError, YAMLError) as error:
        raise DataError(f"{where}: its metadata cannot be read: {first_line(error)}.") from error
    check_licence(values.get("license"), where)


def check_licence(licence: Any, where: str = "licence") -> None:
    """Raise DataError for a licence that cannot be an identifier of the Hub."""
    if licence is not None and (not isinstance(licence, str) or not LICENCE.fullmatch(licence)):
        raise DataError(
            f"{where}: expected the identifier of a licence, found {licence!r:.60}.",
            hint="Such as apache-2.0, mit, cc-by-4.0; all are at https://huggingface.co/docs/hub/repositories-licenses.",
        )


def _bias(found: Mapping[str, Any] | None) -> list[dict[str, Any]] | None:
    """Return the audited tasks, each with its groups, the significant ones first; None without an audit."""
    if found is None:
        return None
    audited = []
    for name, task in _items(found.get("tasks")):
        groups = [each for each in _list(task.get("groups")) if isinstance(each, Mapping)]
        ordered = sorted(
            groups, key=lambda each: (not each.get("significant"), -abs(_number(each.get("mean_shift")) or 0))
        )
        rows = [
            {
                "axis": each.get("axis", "–"),
                "group": each.get("group", "–"),
                "significant": bool(each.get("significant")),
                **{key: _number(each.get(key)) for key in ("pairs", "flip_rate", "mean_shift", "p_adjusted")},
                "interval": _pair(each.get("interval")),
            }
            for each in ordered
        ]
        audited.append({"name": name, "groups": rows, "significant": sum(row["significant"] for row in rows)})
    return audited


def _items(value: Any) -> list[tuple[str, Mapping[str, Any]]]:
    found = value.items() if isinstance(value, Mapping) else ()
    return [(str(name), item) for name, item in found if isinstance(item, Mapping)]


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return None
    return number if math.isfinite(number) else None


def _pair(value: Any) -> tuple[float, float] | None:
    ends = [_number(each) for each in _list(value)]
    return (ends[0], ends[1]) if len(ends) == 2 and ends[0] is not None and ends[1] is not None else None
