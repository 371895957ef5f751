"""Report file: the summary in a run's report.json, checked before others are told what it says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from palbert.errors import RunFolderError
from palbert.options import shown
from palbert.runtime.json_objects import read_object

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Number = Annotated[float, Field(strict=True)]
Whole = Annotated[NonNegativeInt, Field(lt=1 << 63)]
Scores = dict[str, dict[str, Number]]


class _Scored(BaseModel):
    model_config = ConfigDict(strict=True)

    metrics: dict[str, str]
    tasks: Scores
    intervals: dict[str, dict[str, Number | None]] = {}


class _Test(_Scored):
    rows: dict[str, Whole] = {}


class _Summary(_Scored):
    """The parts of a summary that a model card is made from."""

    overall: Number | None = None
    formula: str | None = None
    split: Literal["train", "dev", "test"] = "dev"
    device: str = ""
    step: Whole | None = None
    seconds: Seconds | None = None
    parameters: dict[str, Whole | dict[str, Whole]] | None = None
    baselines: Scores | None = None
    rows: dict[str, dict[str, Whole]] = {}
    notes: list[str] = []
    test: _Test | None = None


def read_report(file: Path, *, hint: str) -> dict[str, Any]:
    """Return the content of a report.json.

    Args:
        file: The file.
        hint: How to make it again.

    Raises:
        RunFolderError: It is not what an evaluation has written.
    """
    values = read_object(file, raises=RunFolderError, hint=hint)
    if not isinstance(values.get("metrics"), Mapping) or not isinstance(values.get("tasks"), Mapping):
        raise RunFolderError(f"{file}: holds no scores of tasks.", hint="Give the folder of a run that has tasks.")
    try:
        read = _Summary.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise RunFolderError(
            f"{file}: damaged: {place}: {first['msg'].lower()}, found {shown(first['input'])}.", hint=hint
        ) from error
    for part in filter(None, (read, read.test)):
        for task, metric in part.metrics.items():
            if metric not in part.tasks.get(task, {}):
                raise RunFolderError(f"{file}: damaged: tasks.{task} has no {metric}.", hint=hint)
    return values
