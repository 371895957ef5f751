"""Trackers: the records of a run in Weights & Biases and in MLflow."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from palbert.errors import MissingExtraError, RunFolderError, TrainingError
from palbert.runtime.files import write_text
from palbert.runtime.json_objects import read_object
from palbert.runtime.run_folder import RunFolder

GROUPS = ("losses", "cosines", "weights", "learning_rate", "drawn")
NUMBERS = ("tokens_per_second", "waited", "overall")


class Tracker(ABC):
    """Sends the records of one run to a tracking service.

    Args:
        project: The project or experiment that the run belongs to.
        name: The name of the run.
        folder: The run folder.
        config: All settings of the run, nested.
        known: The service's own id of the run that is resumed; None for a new run.
    """

    id: str
    """The service's own id of the run."""

    @abstractmethod
    def __init__(self, project: str, *, name: str, folder: Path, config: dict[str, Any], known: str | None) -> None: ...

    @abstractmethod
    def __call__(self, record: Mapping[str, Any]) -> None:
        """Send the numbers of one line of metrics.jsonl."""

    @abstractmethod
    def report(self, scores: Mapping[str, float], page: Path) -> None:
        """Send the final scores and the report."""

    @abstractmethod
    def close(self, *, complete: bool) -> None:
        """End the run; a run that is not complete may be resumed."""


class WandB(Tracker):
    """Weights & Biases; with `WANDB_MODE=offline` it writes files and sends nothing."""

    def __init__(self, project: str, *, name: str, folder: Path, config: dict[str, Any], known: str | None) -> None:
        import wandb

        self.run = wandb.init(
            project=project, name=name, dir=str(folder), config=config, id=known, resume="allow" if known else None
        )
        self.id = str(self.run.id)

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Log the numbers at the record's step."""
        self.run.log(dict(scalars(record)), step=int(record["step"]))

    def report(self, scores: Mapping[str, float], page: Path) -> None:
        """Put the scores into the run's summary, and save the report with its files."""
        self.run.summary.update({f"report/{name}": value for name, value in scores.items()})
        self.run.save(str(page), base_path=str(page.parent), policy="now")

    def close(self, *, complete: bool) -> None:
        """Finish the run."""
        self.run.finish(exit_code=0 if complete else 1)


class MLflow(Tracker):
    """MLflow; `MLFLOW_TRACKING_URI` says where it writes to."""

    def __init__(self, project: str, *, name: str, folder: Path, config: dict[str, Any], known: str | None) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self.client = MlflowClient()
        if known:
            self.id = known
            self.client.update_run(known, status="RUNNING")
            return
        experiment = self.client.get_experiment_by_name(project)
        number = experiment.experiment_id if experiment else self.client.create_experiment(project)
        self.id = str(self.client.create_run(number, run_name=name).info.run_id)
        settings = [Param(_plain(key), str(value)[:500]) for key, value in _flat(config)]
        for start in range(0, len(settings), 100):  # as many as one call takes
            self.client.log_batch(self.id, params=settings[start : start + 100])

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Log the numbers at the record's step."""
        self._log(dict(scalars(record)), step=int(record["step"]))

    def report(self, scores: Mapping[str, float], page: Path) -> None:
        """Log the scores, and keep the report as an artifact."""
        self._log({f"report/{name}": value for name, value in scores.items()}, step=0)
        self.client.log_artifact(self.id, str(page))

    def close(self, *, complete: bool) -> None:
        """Mark the run as finished, or as stopped."""
        self.client.set_terminated(self.id, status="FINISHED" if complete else "KILLED")

    def _log(self, values: Mapping[str, float], *, step: int) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        self.client.log_batch(self.id, metrics=[Metric(_plain(key), value, now, step) for key, value in values.items()])


TRACKERS: dict[str, tuple[type[Tracker], str]] = {
    "wandb": (WandB, "Weights & Biases needs"),
    "mlflow": (MLflow, "Tracking with MLflow needs"),
}
"""The trackers by the setting that asks for them, which is also the name of package and extra."""


def check_trackers(projects: Mapping[str, str]) -> None:
    """Raise MissingExtraError unless the packages of all trackers that are asked for are installed."""
    for name in (name for name, project in projects.items() if project):
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError(TRACKERS[name][1], package=name, extra=name)


def open_trackers(
    projects: Mapping[str, str], folder: Path, *, config: dict[str, Any], resume: bool
) -> dict[str, Tracker]:
    """Open the trackers that are asked for; a resumed run continues the one it began, by the ids in trackers.json."""
    path = RunFolder(folder).trackers
    hint = "Remove it: the run is then tracked as a new one."
    ids = read_object(path, raises=RunFolderError, hint=hint) if resume and path.is_file() else {}
    opened = {}
    for name, project in projects.items():
        if project:
            with _named(name):
                opened[name] = TRACKERS[name][0](
                    project, name=folder.name, folder=folder, config=config, known=ids.get(name)
                )
    if opened:
        write_text(path, json.dumps({name: tracker.id for name, tracker in opened.items()}) + "\n")
    return opened


@contextmanager
def _named(tracker: str) -> Iterator[None]:
    """Say which tracker an error comes from: it is no error of palbert."""
    try:
        yield
    except Exception as error:
        raise TrainingError(
            f"run.{tracker}: the service refuses the run: {type(error).__name__}: {error}",
            hint=f"Correct its settings, or leave run.{tracker} out; then train with --resume.",
        ) from error


def scalars(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a record with their names, such as "losses/sst" and "sst/accuracy"."""
    for group in GROUPS:
        for name, value in record.get(group, {}).items():
            yield f"{group}/{name}", math.nan if value is None else float(value)
    yield from ((name, float(record[name])) for name in NUMBERS if record.get(name) is not None)
    for task, scores in record.get("tasks", {}).items():
        yield from ((f"{task}/{metric}", float(value)) for metric, value in scores.items())


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested values by their dotted keys."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value


def _plain(name: str) -> str:
    """Replace what MLflow does not allow in a name."""
    return re.sub(r"[^\w./ -]", "_", name)
