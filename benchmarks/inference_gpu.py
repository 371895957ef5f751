"""Inference from token ids to numbers on the host: palbert, with and without replays, against transformers in bf16.

A few rows at a time, as in a service, and many at once. A BERT with random weights and a head of five classes; lengths
as in real pairs. transformers pads each batch to its longest row; both sort many rows by length.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from measuring import Stopwatch, describe, machine_facts, write
from synthetic import LONGEST, SHAPES, VOCABULARY, draw_lengths, make_tokenizer, make_up, plain_recipe, random_encoder
from torch.nn.utils.rnn import pad_sequence

from palbert.build import Machine, build_inference, build_model
from palbert.data.dataset import Dataset
from palbert.inference.forward import Forward
from palbert.inference.questions import OneTask
from palbert.recipe.load import make_recipe

BATCH = 256
"""Batch size of transformers for many rows."""
Answer = Callable[[np.ndarray[Any, Any]], torch.Tensor]


class Bench:
    """All rivals, on the same rows."""

    def __init__(self, shape: str, device: str, rows: int) -> None:
        self.recipe = make_recipe(plain_recipe(device=device, batch_size=1), check_files=False)
        self.machine = Machine.for_recipe(self.recipe)
        self.shape = SHAPES[shape]
        self.tokenizer = make_tokenizer()
        self.task = self.recipe.tasks["task"]
        self.data: Dataset = make_up(self.task, draw_lengths(rows), self.tokenizer)
        around = self.tokenizer.template
        [column] = self.data.tokens
        self.ids = [
            torch.from_numpy(np.concatenate([around.before, column[row], around.after])).long() for row in range(rows)
        ]

    def palbert(self, *, replays: bool) -> Answer:
        """Return palbert's inference; without replays, the host launches every kernel."""
        model = build_model(self.recipe.tasks, random_encoder(self.recipe, self.shape)).to(self.machine.device).eval()
        inference = build_inference(model, tokenizer=self.tokenizer, machine=self.machine)
        if not replays:
            inference.forward = Forward(OneTask(model), self.machine.device, self.machine.arithmetic)
        [column] = self.data.tokens
        return lambda rows: inference.outputs(self.task, (column.take(rows),))

    def transformers(self) -> Answer:
        """Return the usual inference: weights in bf16, SDPA, padded batches."""
        config = transformers.BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=self.shape.hidden,
            num_hidden_layers=self.shape.layers,
            num_attention_heads=self.shape.heads,
            intermediate_size=4 * self.shape.hidden,
            max_position_embeddings=LONGEST,
            num_labels=5,
            attn_implementation="sdpa",
        )
        device = self.machine.device
        model: Any = transformers.BertForSequenceClassification(config).to(device).eval()
        if device.type == "cuda":
            model = model.bfloat16()

        @torch.inference_mode()
        def answer(rows: np.ndarray[Any, Any]) -> torch.Tensor:
            order = sorted(rows.tolist(), key=lambda row: -len(self.ids[row]))
            found = []
            for start in range(0, len(order), BATCH):
                ids = [self.ids[row] for row in order[start : start + BATCH]]
                mask = pad_sequence([torch.ones_like(each) for each in ids], batch_first=True)
                padded = pad_sequence(ids, batch_first=True)
                found.append(model(padded.to(device), attention_mask=mask.to(device)).logits.float().cpu())
            return torch.cat(found)

        return answer

    def measure(self, answer: Answer, count: int, repeats: int) -> float:
        """Return the median seconds for a number of rows."""
        draw = np.random.default_rng(0)
        watch = Stopwatch(self.machine.device)
        chosen = [draw.choice(len(self.ids), count, replace=False) for _ in range(repeats)]
        for rows in chosen * (2 if count <= 64 else 1):  # a kind of batch is captured when it occurs again
            answer(rows)
        times = []
        for rows in chosen:
            watch.wait()
            start = time.perf_counter()
            answer(rows)
            times.append(time.perf_counter() - start)
        return statistics.median(times)


def main() -> None:
    """Measure; print a table and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", default="base", choices=sorted(SHAPES))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32, 16384], help="rows per call")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path, help="also write the JSON line to this file, as results come in")
    arguments = parser.parse_args()
    bench = Bench(arguments.shape, arguments.device, max(*arguments.rows, 64))
    ways: dict[str, Callable[[], Answer]] = {
        "palbert": lambda: bench.palbert(replays=True),
        "palbert, not replayed": lambda: bench.palbert(replays=False),
        "transformers bf16": bench.transformers,
    }
    facts: dict[str, Any] = {
        "benchmark": "inference_gpu",
        "shape": arguments.shape,
        "precision": bench.machine.precision,
        "seconds": {},
        "ratios": {},
        **machine_facts(bench.machine.device, transformers=transformers.__version__),
    }
    print(f"| {'':24} | rows | ms | rows/s | × palbert |\n|{'-' * 26}|---|---|---|---|")
    for name, make in ways.items():
        own: dict[str, Any] = {}
        facts["seconds"][name] = own
        try:
            answer = make()
            for count in arguments.rows:
                own[str(count)] = bench.measure(answer, count, arguments.repeats if count <= 64 else 2)
        except Exception as error:  # a rival that fails does not stop the others
            own["error"] = describe(error)
        first = facts["seconds"]["palbert"]
        facts["ratios"][name] = {count: own[count] / first[count] for count in own if count in first}
        for count, ratio in facts["ratios"][name].items():
            rate = int(count) / own[count]
            print(f"| {name:24} | {count} | {own[count] * 1e3:.2f} | {rate:,.0f} | {ratio:.2f} |", flush=True)
        write(facts, arguments.out)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
