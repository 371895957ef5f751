"""Teachers: earlier runs; their outputs for the training rows are soft targets."""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palbert.build.checkpoint import open_checkpoint, read_tasks
from palbert.build.machine import Machine, build_inference, prepare_for_inference
from palbert.data.array_files import load_array, read_facts, save_arrays
from palbert.data.dataset import Dataset
from palbert.data.ragged import offsets_of
from palbert.data.tokenizer import TextTokenizer
from palbert.data.training_set import TrainingSet
from palbert.errors import PalbertError, RecipeError, RunFolderError
from palbert.recipe.schema import Recipe
from palbert.registry import OBJECTIVES
from palbert.runtime.files import cache_entry, cache_folder, sha256
from palbert.runtime.run_folder import RunFolder
from palbert.tasks.spec import Task

log = logging.getLogger(__name__)

MARK = "outputs.json"
"""The file that a complete entry of the cache has, with the checksum of the outputs."""
FORMAT = 2
"""Version of the cached outputs; a change invalidates every entry."""


def check_teachers(recipe: Recipe) -> None:
    """Refuse teachers without the task, before anything is loaded; warn if no objective uses them."""
    objectives = {objective.name for stage in recipe.stages for objective in stage.objectives}
    taught = [task.name for task in recipe.tasks.values() if task.teachers]
    if taught and not any(name == "distillation" or name not in OBJECTIVES.paths for name in objectives):
        log.warning("The teachers of %s have no effect: 'distillation' is not in objectives.", ", ".join(taught))
    for task in recipe.tasks.values():
        for number, run in enumerate(task.teachers):
            place = f"tasks.{task.name}.teachers.{number}"
            try:
                own = read_tasks(RunFolder(Path(run)).checkpoint()).get(task.name)
            except PalbertError as error:
                raise RecipeError(f"{place}: {error.message}", hint=error.hint) from None
            if own is None:
                raise RecipeError(f"{place}: {run} has no task '{task.name}'.")
            for field in ("kind", "classes", "target"):
                if getattr(own, field) != getattr(task, field):
                    raise RecipeError(f"{place}: expected {run} to have the recipe's {field} for '{task.name}'.")


def teach(
    recipe: Recipe, sets: Mapping[str, TrainingSet[Dataset]], *, tokenizer: TextTokenizer, machine: Machine
) -> dict[str, TrainingSet[Dataset]]:
    """Return the training sets with the answers of their tasks' teachers; triplets have none."""
    answers: dict[str, list[NDArray[np.float32]]] = {}
    for task in recipe.tasks.values():
        for run in task.teachers:
            teacher = _Teacher(RunFolder(Path(run)).checkpoint(), task, tokenizer=tokenizer, machine=machine)
            for each in sets.values():
                if each.task == task.name and not each.triplets:
                    answers.setdefault(each.name, []).append(teacher.answer(each.name, each.rows))
    taught = {name: replace(sets[name], teacher_outputs=np.stack(outputs, axis=1)) for name, outputs in answers.items()}
    return {**sets, **taught}


def teachers_sha256(recipe: Recipe) -> dict[str, str]:
    """Return the hash of every teacher's weights."""
    runs = {run for task in recipe.tasks.values() for run in task.teachers}
    return {run: sha256(RunFolder(Path(run)).checkpoint() / "model.safetensors") for run in sorted(runs)}


class _Teacher:
    """One checkpoint that answers one task; it is loaded only when an answer is not in the cache."""

    def __init__(self, folder: Path, task: Task, *, tokenizer: TextTokenizer, machine: Machine) -> None:
        self.folder = folder
        self.task = task
        self.tokenizer = tokenizer
        self.machine = machine
        self._opened: Any = None

    def answer(self, name: str, dataset: Dataset) -> NDArray[np.float32]:
        """Return the outputs for every row, (rows, outputs)."""
        folder = cache_folder() / f"teacher-{self._key(dataset)}"
        if (folder / MARK).is_file():
            try:
                return load_array(folder / "outputs.npy", read_facts(folder / MARK)["arrays"]["outputs"])
            except (OSError, ValueError, KeyError) as error:
                log.warning("The teacher is asked again: %s", error)
                shutil.rmtree(folder, ignore_errors=True)
        outputs = self._ask(name, dataset)
        try:
            with cache_entry(folder, mark=MARK) as temporary:
                save_arrays(temporary, {"outputs": outputs}, mark=MARK, facts={})
        except (RunFolderError, OSError) as error:  # the run works without a cache
            log.warning("The teachers' answers cannot be cached: %s", error)
        return outputs

    def _ask(self, name: str, dataset: Dataset) -> NDArray[np.float32]:
        if self._opened is None:
            self._opened = open_checkpoint(self.folder, self.machine)
            prepare_for_inference(self._opened.model, self.machine)
        opened = self._opened
        tokens = dataset.tokens
        if opened.tokenizer.sha256 != self.tokenizer.sha256:
            tokens = tuple(opened.tokenizer(list(column)) for column in dataset.texts)
        inference = build_inference(opened.model, tokenizer=opened.tokenizer, machine=self.machine)
        title = f"teacher {self.folder.parent.parent.name} answers {name}"
        outputs: NDArray[np.float32] = inference.outputs(opened.tasks[self.task.name], tokens, title=title).numpy()
        return outputs

    def _key(self, dataset: Dataset) -> str:
        """Hash everything that the answers depend on."""
        asked = f"{FORMAT} {self.task.name} {self.machine.device.type} {self.machine.precision}"
        digest = hashlib.sha256(asked.encode())
        for name in ("model.safetensors", "palbert.json", "tokenizer.json"):
            digest.update(sha256(self.folder / name).encode())
        for column in dataset.texts:
            digest.update(offsets_of(column.bytes.lengths).tobytes())
            for part in column.bytes.parts():
                digest.update(part.values.tobytes())
        return digest.hexdigest()[:32]
