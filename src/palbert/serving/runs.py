"""Runs: the models that are served, by name, and what /v1/tasks tells about them."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from palbert.errors import PalbertError, did_you_mean
from palbert.recipe.paths import SAMPLES_FOLDER
from palbert.runtime.run_folder import RunFolder
from palbert.serving.model import ServedModel
from palbert.serving.problems import Problem
from palbert.tasks.spec import Task
from palbert.verbs.audit_bias_files import read_bias
from palbert.verbs.texts import Text

EXAMPLES = 6
"""Examples per task."""
SAMPLES = {"sst": ("sentence",), "quora": ("sentence1", "sentence2"), "sts": ("sentence1", "sentence2")}
"""The sample files and their text columns."""
LIKE = {"single": "sst", "pair": "sts"}
"""The sample file whose rows are examples for a task without one of its own."""

log = logging.getLogger(__name__)


class Runs:
    """The served models; one can be replaced by a newer version while requests are answered."""

    def __init__(self, models: list[ServedModel]) -> None:
        self._models = {model.name: model for model in models}
        self._about = {model.name: describe(model, is_default=model is models[0]) for model in models}

    def get(self, name: str | None = None) -> ServedModel:
        """Return the current version of a run, the first one unless named."""
        if name is None:
            return next(iter(self._models.values()))
        if name not in self._models:
            raise Problem(404, f"Unknown run '{name}'.", hint=did_you_mean(name, self._models))
        return self._models[name]

    def all(self) -> list[ServedModel]:
        """Return the current versions."""
        return list(self._models.values())

    def about(self) -> list[dict[str, Any]]:
        """Return what clients need to know to ask."""
        return list(self._about.values())

    def replace(self, model: ServedModel) -> None:
        """Answer new requests with another version; what waits already is answered by the former one."""
        self._about[model.name] = describe(model, is_default=self._about[model.name]["default"])
        self._models[model.name] = model


def describe(model: ServedModel, *, is_default: bool) -> dict[str, Any]:
    """Return what /v1/tasks says about a run."""
    folder = RunFolder(model.folder)
    report = _report(folder)
    return {
        **model.about,
        "default": is_default,
        "encoder": report.get("encoder"),
        "report": f"/report/{quote(model.name, safe='')}" if folder.report("html").is_file() else None,
        "bias": read_bias(folder),
        "tasks": {task.name: _task(task, report) for task in model.tasks.values()},
    }


def _task(task: Task, report: Mapping[str, Any]) -> dict[str, Any]:
    interval = [_at(report, "intervals", task.name, end) for end in ("low", "high")]
    classes = list(task.target.classes)
    return {
        "kind": task.kind,
        "target": task.target.name,
        "classes": classes or None,
        "range": list(task.range) if task.range else None,
        "max_length": task.max_length,
        "metric": task.metric,
        "score": _at(report, "tasks", task.name, task.metric),
        "interval": None if None in interval else interval,
        "split": report.get("split"),
        "rows": _at(report, "rows", task.name, str(report.get("split"))),
        "examples": examples_for(task),
    }


def _report(folder: RunFolder) -> dict[str, Any]:
    """Return a run's report.json; nothing if it is absent or damaged, since answers do not need it."""
    try:
        content = json.loads(folder.report("json").read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        log.info("%s: no scores are shown: %s", folder.path, error)
        return {}
    return content if isinstance(content, dict) else {}


def _at(report: Mapping[str, Any], *keys: str) -> Any:
    """Return what is at a place of a report; None if nothing is, as in reports of other versions."""
    found: Any = report
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def examples_for(task: Task) -> list[Text]:
    """Return a few sample rows of the kind that a task takes."""
    return _samples(task.name if _fits(task) else LIKE[task.kind])


def _fits(task: Task) -> bool:
    return len(SAMPLES.get(task.name, ())) == len(task.text)


@lru_cache
def _samples(name: str) -> list[Text]:
    columns = SAMPLES[name]
    with (SAMPLES_FOLDER / f"{name}-dev.tsv").open(encoding="utf-8", newline="") as file:
        rows = [
            row
            for row, _ in zip(
                csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE), range(EXAMPLES), strict=False
            )
        ]
    return [row[columns[0]] if len(columns) == 1 else (row[columns[0]], row[columns[1]]) for row in rows]


def check_examples(new: ServedModel, former: ServedModel) -> int:
    """Let a new version answer the examples of every task of the former one.

    Returns:
        How many answers differ.

    Raises:
        PalbertError: A task is gone or takes other input, or an answer is not a number.
    """
    differing = 0
    for name, task in former.tasks.items():
        if name not in new.tasks:
            raise PalbertError(f"The new version has no task '{name}'.")
        if new.tasks[name].kind != task.kind:
            raise PalbertError(f"Task '{name}' takes {new.tasks[name].kind} texts in the new version.")
        texts = examples_for(task)
        before, after = former.predictor.predict(name, texts), new.predictor.predict(name, texts)
        differing += sum(old.answer != found.answer for old, found in zip(before, after, strict=True))
    return differing


def warm_up(model: ServedModel) -> None:
    """Let a model answer an example of every task, so that no client pays for the first pass."""
    for name, task in model.tasks.items():
        model.predictor.predict(name, examples_for(task)[:1])
