"""ServedModel: a loaded run, and how rows of all its tasks are computed in one pass."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from palbert.data.collate import sequence_lengths
from palbert.data.ragged import Ragged
from palbert.errors import CheckpointError
from palbert.inference.evaluator import Asked, Packing
from palbert.inference.questions import share_a_pass
from palbert.runtime.checksums import RECORD
from palbert.runtime.run_folder import RunFolder
from palbert.serving.jobs import Job, Lane, Piece
from palbert.serving.problems import item_error
from palbert.serving.settings import Precision
from palbert.tasks.spec import Task
from palbert.verbs.predict import Predictor, load

NOT_A_NUMBER = "The model's output for this text is not a number."
ATTEMPTS = 3
"""How often a checkpoint is loaded that is replaced meanwhile."""


class ServedModel:
    """One loaded version of a run.

    Args:
        name: What requests call the run.
        folder: Its folder.
        predictor: The model.
        fingerprint: Identifies the checkpoint's content.
    """

    def __init__(self, name: str, folder: Path, predictor: Predictor, fingerprint: str) -> None:
        self.name = name
        self.folder = folder
        self.predictor = predictor
        self.fingerprint = fingerprint
        self.inference = predictor.inference
        self.tasks = predictor.tasks
        self._lanes: dict[str, Lane] = {}
        for group in share_a_pass(self.tasks.values(), self.inference.model.adapter_of):
            lane = Lane(Packing.of(group[0]), len(group[0].text), tuple(group))
            self._lanes |= {task.name: lane for task in group}
        self._vectors: dict[tuple[str, str | None], Lane] = {}

    @property
    def about(self) -> dict[str, str]:
        """Return what answers say about the run."""
        return {"name": self.name, "fingerprint": self.fingerprint}

    def lanes(self, tasks: Iterable[Task]) -> dict[Lane, tuple[Task, ...]]:
        """Return the lanes of tasks, each with those of the tasks that are in it."""
        found: dict[Lane, tuple[Task, ...]] = {}
        for task in tasks:
            lane = self._lanes[task.name]
            found[lane] = (*found.get(lane, ()), task)
        return found

    def vector_lane(self, pooling: str, task: str | None) -> Lane:
        """Return the lane of texts that become vectors; raise DataError for an unknown pooling or task."""
        if (pooling, task) not in self._vectors:
            embedder = self.predictor.embedder
            self._vectors[pooling, task] = Lane(embedder.packing(task), 1, vectors=embedder.forward(pooling))
        return self._vectors[pooling, task]

    def tokenize(self, jobs: Sequence[Job]) -> None:
        """Tokenize the rows of jobs, all texts at once, and measure them."""
        texts = [text for job in jobs for column in job.columns for text in column]
        tokens, start = self.predictor.tokenizer(texts), 0
        template = self.predictor.tokenizer.template
        for job in jobs:
            columns = []
            for column in job.columns:
                columns.append(tokens.take(np.arange(start, start + len(column))))
                start += len(column)
            packing = job.lane.packing
            whole = sequence_lengths(tuple(columns), template, max_length=None, siamese=packing.siamese)
            job.measure(tuple(columns), whole.reshape(-1, len(job)), packing.max_length)

    def compute(self, pieces: Sequence[Piece]) -> None:
        """Compute pieces in one pass, and keep the outputs with their jobs."""
        lanes: dict[Lane, list[Piece]] = {}
        for piece in pieces:
            lanes.setdefault(piece.job.lane, []).append(piece)
        asked = [self._asked(lane, own) for lane, own in lanes.items()]
        outputs = self.inference.run_together(asked)
        named = [self._by_task(lane, own, found) for (lane, own), found in zip(lanes.items(), outputs, strict=True)]
        # Nothing is kept before all of it is there: if this fails, each piece is computed again by itself.
        for own, by_task in zip(lanes.values(), named, strict=True):
            sizes = [len(piece.rows) for piece in own]
            for name, found in by_task.items():
                for piece, rows in zip(own, torch.split(found, sizes), strict=True):
                    piece.job.keep(name, piece.rows, rows)

    def decide(self, jobs: Sequence[Job]) -> None:
        """Turn the outputs of jobs that are computed into answers, those of a task all at once."""
        by_task: dict[tuple[str, float | None], list[Job]] = {}
        for job in jobs:
            if job.lane.vectors is not None:
                self._keep_vectors(job)
            for task in job.tasks:
                by_task.setdefault((task.name, job.call.min_confidence), []).append(job)
        for (name, min_confidence), own in by_task.items():
            self._decide_task(self.tasks[name], own, min_confidence)

    def _decide_task(self, task: Task, jobs: Sequence[Job], min_confidence: float | None) -> None:
        outputs = torch.cat([job.outputs(task.name) for job in jobs])
        broken = ~outputs.isfinite().all(dim=1)
        found = self.predictor.predictions(task, outputs.nan_to_num(0.0, 0.0, 0.0), min_confidence)
        places = [(job, place) for job in jobs for place in range(len(job))]
        for (job, place), prediction, is_broken in zip(places, found, broken.tolist(), strict=True):
            row = job.rows[place]
            answer = prediction.as_dict() | {"cut": bool(job.cut[place])}
            job.call.answers[row, task.name] = item_error(row, NOT_A_NUMBER, status=500) if is_broken else answer

    def _keep_vectors(self, job: Job) -> None:
        vectors = job.outputs("").numpy()
        if job.call.normalise:
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        job.call.tokens = int(job.lengths.sum())  # a call for vectors has one job
        job.call.vectors.update(zip(job.rows, vectors, strict=True))

    def _asked(self, lane: Lane, pieces: Sequence[Piece]) -> Asked:
        """Put the rows of pieces of one lane one after the other."""
        tasks = self._tasks_of(lane, pieces)
        columns = tuple(
            Ragged.concatenate([piece.job.tokens[column].take(piece.rows) for piece in pieces])
            for column in range(lane.columns)
        )
        return Asked(lane.vectors or self.inference.ask_tasks(tasks), lane.packing, columns)

    def _tasks_of(self, lane: Lane, pieces: Sequence[Piece]) -> tuple[Task, ...]:
        """Return the tasks whose outputs are computed: those that are asked, or all where graphs are recorded."""
        asked = {task.name for piece in pieces for task in piece.job.tasks}
        if self.inference.device.type == "cuda":  # one graph per size then, not one per size and choice of tasks
            return lane.tasks
        return tuple(task for task in lane.tasks if task.name in asked)

    def _by_task(self, lane: Lane, pieces: Sequence[Piece], outputs: Tensor) -> dict[str, Tensor]:
        if lane.vectors is not None:
            return {"": outputs}
        tasks = self._tasks_of(lane, pieces)
        parts = torch.split(outputs, [task.outputs for task in tasks], dim=1)
        return {task.name: own for task, own in zip(tasks, parts, strict=True)}


def open_model(
    name: str, folder: Path, *, checkpoint: str | None, device: str, precision: Precision, trust: bool
) -> ServedModel:
    """Load a run to be served; raise CheckpointError if there is none, or it changes again and again meanwhile."""
    for _ in range(ATTEMPTS):
        found = fingerprint_of(RunFolder(folder).checkpoint(checkpoint))
        predictor = load(folder, checkpoint=checkpoint, device=device, precision=precision, trust=trust)
        if not predictor.tasks:
            raise CheckpointError(f"{folder}: has no tasks to answer.", hint="Give the folder of a run.")
        if found == fingerprint_of(RunFolder(folder).checkpoint(checkpoint)):
            return ServedModel(name, folder, predictor, found)
    raise CheckpointError(f"{folder}: its checkpoint changed while it was loaded.", hint="Try again later.")


def fingerprint_of(checkpoint: Path) -> str:
    """Return what identifies the content of a checkpoint: a hash of the record of its files' hashes."""
    record = checkpoint / RECORD
    content = record.read_bytes() if record.is_file() else (checkpoint / "palbert.json").read_bytes()
    return hashlib.sha256(content).hexdigest()[:16]
