"""Predict with model.onnx, with onnxruntime and tokenizers alone: python predict.py --task sst "A quiet triumph."."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer


class Model:
    """The graph, the tokenizer and the tasks in a folder."""

    def __init__(self, folder: str | Path, *, batch_size: int = 32) -> None:
        self.tasks = json.loads(Path(folder, "tasks.json").read_text("utf-8"))["tasks"]
        self.tokenizer = Tokenizer.from_file(str(Path(folder, "tokenizer.json")))
        self.tokenizer.enable_padding()
        self.session = onnxruntime.InferenceSession(Path(folder, "model.onnx"), providers=["CPUExecutionProvider"])
        self.inputs = [each.name for each in self.session.get_inputs()]
        self.options = onnxruntime.RunOptions()
        self.options.only_execute_path_to_fetches = True  # not the passes of other tasks' adapters
        self.batch_size = batch_size

    def predict(self, task: str, rows: list[Any]) -> list[dict[str, Any]]:
        """Return the answers to texts, or to pairs of texts, with the probability of each class."""
        outputs = [self.outputs(task, rows[at : at + self.batch_size]) for at in range(0, len(rows), self.batch_size)]
        return [answer for each in outputs for answer in answers(self.tasks[task], each)]

    def outputs(self, task: str, rows: list[Any]) -> Any:
        """Return the outputs of a task's head, (rows, outputs)."""
        spec = self.tasks[task]
        self.tokenizer.enable_truncation(spec["max_length"])
        # A siamese task takes all first texts, then all second ones; others take a text, or both as one sequence.
        texts = [row[side] for side in (0, 1) for row in rows] if spec["siamese"] else rows
        found = self.tokenizer.encode_batch(texts)
        values = {
            "input_ids": np.array([each.ids for each in found], dtype=np.int64),
            "attention_mask": np.array([each.attention_mask for each in found], dtype=np.int64),
            "token_type_ids": np.array([each.type_ids for each in found], dtype=np.int64),
        }
        return self.session.run([spec["output"]], {name: values[name] for name in self.inputs}, self.options)[0]


def answers(spec: dict[str, Any], outputs: Any) -> list[dict[str, Any]]:
    """Turn a head's outputs into answers: calibrated, with the thresholds that were chosen on dev."""
    numbers = outputs.astype(np.float64) * spec["scale"] + spec["shift"]
    if spec["answer"] == "outputs":
        return [{"outputs": row.tolist()} for row in numbers]
    if spec["answer"] == "number":
        low, high = spec["range"] or (-np.inf, np.inf)
        return [{"answer": float(number)} for number in np.clip(numbers[:, 0], low, high)]
    if spec["answer"] == "classes":
        powers = np.exp(numbers - numbers.max(axis=1, keepdims=True))
        shares = powers / powers.sum(axis=1, keepdims=True)
        chosen = [spec["classes"][index] for index in shares.argmax(axis=1)]
    else:
        shares = 0.5 * (1 + np.tanh(0.5 * numbers))  # the sigmoid, without overflows
        if spec["answer"] == "binary":
            chosen = [spec["classes"][int(yes)] for yes in shares[:, 0] > spec["thresholds"][0]]
            shares = np.concatenate([1 - shares, shares], axis=1)
        else:
            chosen = [[spec["classes"][index] for index in np.flatnonzero(row)] for row in shares > spec["thresholds"]]
    return [
        {"answer": answer, "probabilities": dict(zip(spec["classes"], row, strict=True))}
        for answer, row in zip(chosen, shares.tolist(), strict=True)
    ]


def main() -> None:
    """Answer the texts of the command line, one line of JSON each."""
    model = Model(Path(__file__).parent)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", choices=model.tasks, required=len(model.tasks) > 1, default=next(iter(model.tasks)))
    parser.add_argument("texts", nargs="+", help="Texts; for a task on pairs, the first and second text of each.")
    given = parser.parse_args()
    rows = given.texts
    if model.tasks[given.task]["texts"] == 2:
        if len(rows) % 2:
            parser.error(f"task '{given.task}' takes pairs: expected an even number of texts, found {len(rows)}")
        rows = list(zip(rows[::2], rows[1::2], strict=True))
    for answer in model.predict(given.task, rows):
        sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
