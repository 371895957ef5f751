"""Folders of a graph: model.onnx with the heads of all tasks, and a script that needs no palbert to answer with it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from palbert.build import build_inference
from palbert.errors import DataError
from palbert.inference.onnx_graph import OPSET, input_names, record_graph, write_graph
from palbert.tasks.spec import Task
from palbert.verbs.exports.answers import describe_answers
from palbert.verbs.exports.check_rows import Row, rows_of
from palbert.verbs.exports.form import Checked, Form, Precision, Source, Wanted, compared
from palbert.verbs.predict import Prediction, Predictor
from palbert.verbs.texts import columns_of

TOLERANCE = 1e-4
"""How far the outputs of a graph may be from palbert's."""
INT8_TOLERANCE = 0.3
"""The same in 8 bits, which are coarse: a larger difference is a mistake and no rounding."""
SCRIPT = Path(__file__).with_name("predict.py")
"""What is copied into the folder."""
BATCH = 32
"""Rows of the longer measurement."""
SECONDS = 0.5
"""How long each measurement goes on, after two calls."""


class OnnxForm(Form):
    """One graph with the heads of all tasks, or of those that are named."""

    name = "onnx"
    library = "onnxruntime"
    takes = frozenset({"precision"})

    def __init__(self, source: Source, wanted: Wanted) -> None:
        super().__init__(source, wanted)
        if wanted.precision not in get_args(Precision):
            raise DataError(
                f"Cannot export in '{wanted.precision}'.", hint=f"There are: {', '.join(get_args(Precision))}."
            )
        if not source.tasks:
            raise DataError(
                "This is an encoder without tasks, and a graph has their heads.",
                hint="Give a run, or take --to sentence-transformers for vectors.",
            )
        self.tasks = source.chosen(wanted.tasks)
        self.int8 = wanted.precision == "int8"
        self.graph = record_graph(
            source.opened.model, {task.name: 2 if task.siamese else 1 for task in self.tasks}, int8=self.int8
        )

    @property
    def content(self) -> str:
        """Name the tasks and the precision."""
        return f"{', '.join(task.name for task in self.tasks)}; opset {OPSET}, {self.wanted.precision}"

    def origin(self) -> dict[str, Any]:
        """Return the tasks and the precision."""
        return {"tasks": [task.name for task in self.tasks], "opset": OPSET, "precision": self.wanted.precision}

    def write(self, folder: Path) -> None:
        """Write the graph, the tokenizer, the tasks and the script."""
        opened = self.source.opened
        write_graph(self.graph, folder / "model.onnx")
        opened.tokenizer.save(folder / "tokenizer.json")
        content = {
            "format": 1,
            "inputs": input_names(opened.model),
            "opset": OPSET,
            "precision": self.wanted.precision,
            "tasks": {task.name: describe_answers(task, self.source.decision(task)) for task in self.tasks},
        }
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        (folder / "tasks.json").write_text(text, encoding="utf-8")
        (folder / "predict.py").write_bytes(SCRIPT.read_bytes())

    def check(self, folder: Path) -> Checked | None:
        """Compare the outputs for texts of all lengths and dev rows; measure both."""
        try:
            from palbert.verbs.exports.predict import Model
        except ModuleNotFoundError as error:
            if error.name == self.library:
                return None
            raise
        model, rows = Model(folder), {task.name: rows_of(task, self.source.run) for task in self.tasks}
        found = {name: each_and_all(model.outputs, name, own) for name, own in rows.items()}
        answers = {name: model.predict(name, own) for name, own in rows.items()}
        expected = self._expected(rows)
        pairs = [(found[name], expected[name]) for name in rows]
        tolerance = INT8_TOLERANCE if self.int8 else TOLERANCE
        difference = max(compared(self.library, "outputs", *pair, tolerance=tolerance) for pair in pairs)
        # The measurement replaces layers of the model, so it comes last.
        predictor = Predictor(self.source.opened, self.source.machine)
        same = [
            (name, [_answer(mine) == _answer(vars(own)) for mine, own in zip(answers[name], theirs, strict=True)])
            for name, theirs in ((task.name, self._answers(predictor, task, expected)) for task in self.tasks)
        ]
        return Checked(difference, (self._verdict(difference), *_shares(same), *self._speeds(model, predictor, rows)))

    def _expected(self, rows: dict[str, list[Row]]) -> dict[str, Any]:
        """Return palbert's outputs for the rows of each task."""
        opened = self.source.opened
        inference = build_inference(opened.model, tokenizer=opened.tokenizer, machine=self.source.machine)
        outputs = {}
        for task in self.tasks:
            tokens = tuple(opened.tokenizer(column) for column in columns_of(task, rows[task.name]))
            outputs[task.name] = inference.outputs(task, tokens, title=f"checking {task.name}").numpy()
        return outputs

    @staticmethod
    def _answers(predictor: Predictor, task: Task, outputs: dict[str, Any]) -> list[Prediction]:
        """Return palbert's answers for outputs of its own."""
        return predictor.predictions(task, torch.from_numpy(outputs[task.name]), None)

    def _verdict(self, difference: float) -> str:
        if self.int8:
            return f"In 8 bits, outputs differ from palbert's by up to {difference:.2g}."
        return f"onnxruntime gives the same outputs as palbert, up to {difference:.1e}."

    def _speeds(self, model: Any, predictor: Predictor, rows: dict[str, list[Row]]) -> list[str]:
        """Return how long a text and a batch take, tokenization included, in onnxruntime and in palbert."""
        name, own = next(iter(rows.items()))
        chosen = (own[6:] or own)[:BATCH]
        lines = []
        for what, some in ((f"one row of {name}", chosen[:1]), (f"{len(chosen)} rows", chosen)):
            theirs, mine = (_seconds(partial(each.predict, name, some)) for each in (model, predictor))
            lines.append(f"{what}: {1000 * theirs:.1f} ms (palbert: {1000 * mine:.1f} ms)")
        return [f"onnxruntime needs for {', for '.join(lines)}."]


def each_and_all(outputs: Callable[[str, list[Row]], Any], task: str, rows: list[Row]) -> Any:
    """Return the outputs of some rows: the first one alone, the others together."""
    return np.concatenate([outputs(task, rows[:1]), outputs(task, rows[1:])])


def _answer(prediction: Any) -> Any:
    """Return an answer for comparison; numbers are compared as outputs."""
    answer = prediction.get("answer")
    return None if isinstance(answer, float) else answer


def _shares(same: Sequence[tuple[str, list[bool]]]) -> list[str]:
    """Say how many answers are the same."""
    counts = ", ".join(f"{name} {sum(equal)} of {len(equal)}" for name, equal in same)
    return [f"Equal answers: {counts}."]


def _seconds(call: Callable[[], Any]) -> float:
    """Return the least time of a call."""
    call()
    times: list[float] = []
    begun = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begun < SECONDS:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
