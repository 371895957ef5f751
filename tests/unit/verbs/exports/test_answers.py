"""Answers as plain data: what palbert decodes is what the description says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from palbert.inference.decisions import Decision
from palbert.recipe.load import make_recipe
from palbert.targets.classes import Classes
from palbert.targets.target import Decoded
from palbert.tasks.spec import Task
from palbert.verbs.exports.answers import describe_answers, kind_of

pytest.importorskip("onnxruntime")
CASES: dict[str, tuple[dict[str, Any], Decision]] = {
    "classes": ({"target": "classes", "classes": ["a", "b", "c"]}, Decision("temperature", (0.3,), (0.0,))),
    "classes as they are": ({"target": "classes", "classes": ["a", "b"]}, Decision()),
    "binary": ({"target": "binary", "classes": ["no", "yes"]}, Decision("platt", (2.0,), (-1.0,))),
    "binary with a threshold": ({"target": "binary"}, Decision(threshold="f1", thresholds=(0.9,))),
    "multilabel": (
        {"target": {"name": "multilabel", "threshold": {"joy": 0.2}}, "classes": ["joy", "anger"]},
        Decision("platt", (2.0, 1.0), (0.0, 1.0)),
    ),
    "number": ({"target": "number"}, Decision()),
    "number in a range": ({"target": "number", "range": (0.0, 1.0)}, Decision()),
}


def task_of(settings: dict[str, Any]) -> Task:
    """Return a task of single texts."""
    task = {"kind": "single", "text": ["text"], "train": ["rows.tsv"], "dev": ["dev.tsv"], **settings}
    return make_recipe({"tasks": {"mine": task}}, check_files=False).tasks["mine"]


@pytest.mark.parametrize("case", CASES)
def test_the_description_leads_to_palberts_answers(case: str) -> None:
    from palbert.verbs.exports.predict import answers

    settings, decision = CASES[case]
    task = task_of(settings)
    outputs = torch.randn(20, task.outputs, generator=torch.Generator().manual_seed(0)) * 3
    decoded = decision.decode(task.target, outputs)
    found = answers(describe_answers(task, decision), outputs.numpy())
    assert [row["answer"] for row in found] == [task.target.answer(row) for row in decoded.predicted]
    if decoded.probabilities is not None:
        shares = np.array([list(row["probabilities"].values()) for row in found])
        np.testing.assert_allclose(shares, decoded.probabilities, atol=1e-12)
        assert list(found[0]["probabilities"]) == list(task.target.classes)


class Reversed(Classes):
    """Classes that are decoded in another way."""

    def decode(self, outputs: torch.Tensor) -> Decoded:
        """Return the least likely class."""
        return super().decode(-outputs)


def test_a_target_that_decodes_in_its_own_way_leaves_its_outputs() -> None:
    from palbert.verbs.exports.predict import answers

    target = Reversed(classes=["a", "b"])
    assert kind_of(target) == "outputs"
    spec = {"answer": "outputs", "scale": [1.0], "shift": [0.0]}
    assert answers(spec, np.array([[1.0, 2.0]], np.float32)) == [{"outputs": [1.0, 2.0]}]
