"""Folders of one task's model: what AutoModelForSequenceClassification and CrossEncoder load, with palbert's logits."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from palbert.build import build_inference
from palbert.build.classifiers import ELSEWHERE, MODEL_FILE, Classifier, write_classifier
from palbert.build.exporting import adapter_to_merge, merge_adapter
from palbert.errors import DataError
from palbert.model.adapters import LoRA
from palbert.targets.binary import Binary
from palbert.tasks.spec import Task
from palbert.verbs.export_check import logits_of, scores_of
from palbert.verbs.exports.answers import kind_of, thresholds_of
from palbert.verbs.exports.check_rows import rows_of
from palbert.verbs.exports.form import Checked, Form, Source, Wanted, compared, one_task
from palbert.verbs.texts import columns_of

TOLERANCE = 1e-4
"""How far the logits of the library may be from palbert's."""
PROBLEMS = {
    "classes": "single_label_classification",
    "binary": "single_label_classification",
    "multilabel": "multi_label_classification",
    "number": "regression",
}
"""What transformers calls the kinds of answers."""
SIGMOID, IDENTITY = "torch.nn.modules.activation.Sigmoid", "torch.nn.modules.linear.Identity"

log = logging.getLogger(__name__)


class ClassifierForm(Form):
    """What `AutoModelForSequenceClassification` loads: one task's encoder, adapter, pooling and head.

    Calibration is part of the last layer, so that the probabilities are palbert's. Thresholds, and the range of
    numbers, are named in config.json; the library does not apply them.
    """

    name = library = "transformers"

    def __init__(self, source: Source, wanted: Wanted) -> None:
        super().__init__(source, wanted)
        self.task = one_task(source, wanted, self.name)
        self._check_task(self.task)
        model, self.decision = source.opened.model, source.decision(self.task)
        self.classifier = Classifier.of(model, self.task.name)
        self.rows = rows_of(self.task, source.run)
        self.expected = self._expected()
        owner = adapter_to_merge(source.opened, task=self.task.name, without_adapters=False)
        if owner is not None and isinstance(model.adapters[owner], LoRA):
            merge_adapter(model, owner)
        self.classifier.calibrate(self.decision.scale, self.decision.shift, yes_and_no=self.yes_and_no)
        self.thresholds = thresholds_of(self.task, self.decision)
        if any(threshold != 0.5 for threshold in self.thresholds):
            log.warning("tasks.%s: %s does not apply the task's thresholds.", self.task.name, self.library)

    def _check_task(self, task: Task) -> None:
        """Raise DataError for a task that the library has no form for."""
        if task.siamese:
            raise DataError(
                f"tasks.{task.name}: siamese pairs are two sequences, and {self.library} has no classifiers of two.",
                hint=ELSEWHERE,
            )
        if kind_of(task.target) == "outputs":
            raise DataError(
                f"tasks.{task.name}: {self.library} has no answers like those of the target '{task.target.name}'.",
                hint=ELSEWHERE,
            )

    @property
    def yes_and_no(self) -> bool:
        """Whether the one logit of a binary task becomes two, so that each class has its label."""
        return isinstance(self.task.target, Binary)

    @property
    def content(self) -> str:
        """Name the task and the class."""
        return f"{self.task.name}; {self.classifier.native or MODEL_FILE.name}"

    def origin(self) -> dict[str, Any]:
        """Return the task."""
        return {"task": self.task.name}

    def write(self, folder: Path) -> None:
        """Write the model."""
        write_classifier(
            folder,
            self.classifier,
            self.source.opened.tokenizer,
            settings=self._settings(),
            max_length=self.task.max_length,
        )

    def check(self, folder: Path) -> Checked | None:
        """Compare logits for texts of all lengths and dev rows."""
        found = logits_of(folder, self.rows, trust=self.classifier.native is None)
        return self._checked(found, "logits")

    def _checked(self, found: NDArray[np.float32] | None, what: str) -> Checked | None:
        if found is None:
            return None
        difference = compared(self.library, what, found, self.expected, tolerance=TOLERANCE)
        same = f"{self.library} gives the same {what} as palbert for {len(found)} rows, up to {difference:.1e}."
        own = "" if self.classifier.native else f"The folder has a model file of its own: load it with {TRUST}."
        return Checked(difference, tuple(filter(None, (same, own))))

    def _settings(self) -> dict[str, Any]:
        """Return what config.json says about the task."""
        names = self._label_names()
        return {
            "id2label": {str(number): name for number, name in enumerate(names)},
            "label2id": {name: number for number, name in enumerate(names)},
            "problem_type": PROBLEMS[kind_of(self.task.target)],
            "palbert": {
                "task": self.task.name,
                "thresholds": self.thresholds,
                "range": None if self.task.range is None else list(self.task.range),
            },
        }

    def _label_names(self) -> list[str]:
        target = self.task.target
        return list(target.classes) if self.yes_and_no or target.outputs == len(target.classes) else [self.task.name]

    def _expected(self) -> NDArray[np.float32]:
        """Return palbert's calibrated outputs for the rows of the check."""
        opened = self.source.opened
        inference = build_inference(opened.model, tokenizer=opened.tokenizer, machine=self.source.machine)
        tokens = tuple(opened.tokenizer(column) for column in columns_of(self.task, self.rows))
        outputs = inference.outputs(self.task, tokens, title=f"checking {self.task.name}")
        logits = self.decision.calibrated(outputs.double())
        if self.yes_and_no:
            logits = torch.cat([torch.zeros_like(logits), logits], dim=1)
        found: NDArray[np.float32] = logits.float().numpy()
        return found


TRUST = "trust_remote_code=True"


class CrossEncoderForm(ClassifierForm):
    """What `CrossEncoder` of sentence-transformers loads: scores of joint pairs."""

    name = "cross-encoder"
    library = "sentence-transformers"

    def _check_task(self, task: Task) -> None:
        super()._check_task(task)
        if task.kind != "pair":
            raise DataError(
                f"tasks.{task.name}: a cross-encoder takes pairs, and this task takes single texts.",
                hint=f"Export it with --to transformers --task {task.name}.",
            )

    @property
    def yes_and_no(self) -> bool:
        """A cross-encoder scores a pair by one number: the probability of yes."""
        return False

    def check(self, folder: Path) -> Checked | None:
        """Compare scores for pairs of all lengths and dev rows."""
        return self._checked(scores_of(folder, self.rows, trust=self.classifier.native is None), "scores")

    def _label_names(self) -> list[str]:
        target = self.task.target
        if isinstance(target, Binary):
            return [target.classes[1]]
        return super()._label_names()

    def _settings(self) -> dict[str, Any]:
        yes_or_no = self.task.target.yes_or_no
        own = {"activation_fn": SIGMOID if yes_or_no else IDENTITY, "version": "5.0.0"}
        problem = {"problem_type": PROBLEMS["multilabel"]} if yes_or_no else {}  # one sigmoid per number
        return {**super()._settings(), **problem, "sentence_transformers": own}

    def _expected(self) -> NDArray[np.float32]:
        logits = super()._expected()
        if not self.task.target.yes_or_no:
            return logits
        shares: NDArray[np.float32] = torch.from_numpy(logits).sigmoid().numpy()
        return shares
