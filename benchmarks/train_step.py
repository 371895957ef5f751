"""A whole training step: palbert's own Trainer against transformers in its best settings, on the same batches.

Forward, loss, backward, clipping and fused AdamW of a classifier on a BERT with random weights and dropout 0.1;
lengths are mixed as in real pairs, lognormal(3.25, 0.45), at most 128. transformers pads to the longest row of a batch
and uses SDPA. Steps are timed one by one, and many together without waiting for the device; in the latter case
palbert's feed makes the batches, while transformers gets prepared ones in pinned memory.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from measuring import Stopwatch, Times, Work, describe, machine_facts, write
from numpy.typing import NDArray
from synthetic import (
    HAS_CAPTURE,
    LONGEST,
    SHAPES,
    VOCABULARY,
    Shape,
    Steps,
    draw_lengths,
    flops,
    make_tokenizer,
    make_trainer,
    make_up,
    plain_recipe,
)
from torch.nn.utils.rnn import pad_sequence

from palbert.data.streams import Stream
from palbert.recipe.load import make_recipe
from palbert.runtime.precision import choose_device

LORA = {"adapters": "lora", "encoder": {"frozen": True}}
RIVALS: dict[str, dict[str, Any]] = {
    "transformers fp32": {"precision": "fp32"},
    "transformers bf16": {"precision": "bf16"},
    "transformers bf16 compiled": {"precision": "bf16", "compiled": True},
    "peft LoRA": {"precision": "bf16", "lora": True},
}
"""fp32 uses TF32 products on CUDA; bf16 is autocast; compiled is torch.compile(dynamic=True)."""
FORMULA = "6 × layers' parameters × tokens + 12 × layers × hidden × Σ length²"
Batch = dict[str, torch.Tensor]


def sequences(batch_size: int, batches: int) -> list[tuple[list[torch.Tensor], torch.Tensor]]:
    """Return the token ids and labels of the batches that palbert's feed makes."""
    recipe = make_recipe(plain_recipe(device="cpu", batch_size=batch_size), check_files=False)
    tokenizer = make_tokenizer()
    dataset = make_up(recipe.tasks["task"], draw_lengths(batch_size * batches), tokenizer)
    stream = Stream("task", rows=len(dataset), batch_size=batch_size, seed=recipe.seed)
    around = tokenizer.template
    assert dataset.labels is not None
    found = []
    for number in range(batches):
        rows = stream.batch(number * stream.batch_size)
        ids = [np.concatenate([around.before, dataset.tokens[0][row], around.after]) for row in rows]
        found.append(([torch.from_numpy(each).long() for each in ids], torch.from_numpy(dataset.labels[rows])))
    return found


def padded(ids: list[torch.Tensor], labels: torch.Tensor) -> Batch:
    """Pad sequences to the longest one."""
    mask = [torch.ones_like(each) for each in ids]
    return {
        "input_ids": pad_sequence(ids, batch_first=True),
        "attention_mask": pad_sequence(mask, batch_first=True),
        "labels": labels,
    }


@contextmanager
def tf32(device: torch.device) -> Iterator[None]:
    """Allow TF32 products inside the block; no effect on the CPU."""
    former = torch.get_float32_matmul_precision()
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(former)


class Transformers:
    """BertForSequenceClassification with fused AdamW."""

    def __init__(
        self, shape: Shape, device: torch.device, *, precision: str, compiled: bool = False, lora: bool = False
    ) -> None:
        if precision == "bf16" and device.type != "cuda":
            raise NotImplementedError("bf16 is measured on CUDA only")
        config = transformers.BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=shape.hidden,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            intermediate_size=4 * shape.hidden,
            max_position_embeddings=LONGEST,
            num_labels=5,
            problem_type="single_label_classification",
            attn_implementation="sdpa",
        )
        with device:
            model: Any = transformers.BertForSequenceClassification(config)
        model = _with_lora(model) if lora else model
        self.device, self.precision = device, precision
        self.model = model.to(device).train()
        self.parameters = [value for value in model.parameters() if value.requires_grad]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=3e-5, weight_decay=0.01, fused=True)
        self.forward: Callable[..., Any] = torch.compile(model, dynamic=True) if compiled else model
        self.host: list[Batch] = []
        self.batches: list[Batch] = []

    def take(self, batches: list[Batch]) -> None:
        """Switch to other batches."""
        cuda = self.device.type == "cuda"
        self.host = [{key: value.pin_memory() if cuda else value for key, value in each.items()} for each in batches]
        self.batches = [self._copy(each) for each in self.host]

    def step(self, number: int) -> None:
        """Do one step on a batch that is on the device."""
        self._step(self.batches[number])

    def run(self) -> None:
        """Do a step on each batch, from pinned memory."""
        for batch in self.host:
            self._step(self._copy(batch))

    def kept_bytes(self) -> float:
        """Return the bytes of weights and optimizer state."""
        state = [value for each in self.optimizer.state.values() for value in each.values() if torch.is_tensor(value)]
        return float(sum(value.nbytes for value in [*self.model.parameters(), *self.model.buffers(), *state]))

    def _copy(self, batch: Batch) -> Batch:
        return {key: value.to(self.device, non_blocking=True) for key, value in batch.items()}

    def _step(self, batch: Batch) -> None:
        arithmetic = torch.autocast("cuda", dtype=torch.bfloat16) if self.precision == "bf16" else nullcontext()
        with tf32(self.device):
            with arithmetic:
                loss = self.forward(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()


def _with_lora(model: Any) -> Any:
    """Freeze a model and add peft's LoRA with palbert's default settings."""
    import peft  # not a requirement of palbert

    settings = peft.LoraConfig(
        task_type="SEQ_CLS", r=8, lora_alpha=16, lora_dropout=0.0, target_modules=["query", "value"]
    )
    return peft.get_peft_model(model, settings)


class Bench:
    """All rivals at one shape."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.shape = SHAPES[arguments.shape]
        self.device = choose_device(arguments.device)
        self.watch = Stopwatch(self.device)
        self.kept: dict[str, Transformers] = {}
        """Models are kept over batch sizes, so that torch.compile runs once."""

    def names(self) -> list[str]:
        """Return the rivals to measure, palbert first."""
        ours = [f"palbert, capture {mode}" for mode in self.arguments.palbert]
        return [*ours, *(["palbert LoRA"] if "peft LoRA" in self.arguments.rivals else []), *self.arguments.rivals]

    def prepare(self, name: str, size: int) -> tuple[Work, dict[str, Any]]:
        """Build and warm up one rival; return its steps, the seconds of the first one and its memory."""
        known = name in self.kept
        with self.watch.memory() as found:
            work = self._work(name, size)
            first = self.watch.warm_up(work, 3 if name.startswith("palbert") else 1)
        if known and found:
            kept = self.kept[name].kept_bytes()
            found = {key: value + kept for key, value in found.items()}
        return work, {"first_step_seconds": first, **found}

    def _work(self, name: str, size: int) -> Work:
        batches = self.arguments.batches
        if name.startswith("palbert"):
            capture = name.split()[-1] if name.startswith("palbert, capture") else "auto"
            values = plain_recipe(device=str(self.device), batch_size=size, capture=capture)
            values |= LORA if name == "palbert LoRA" else {}
            return Steps(make_trainer(values, shape=self.shape, batches=batches), batches)
        if name not in self.kept:
            self.kept[name] = Transformers(self.shape, self.device, **RIVALS[name])
        self.kept[name].take([padded(*each) for each in sequences(size, batches)])
        return self.kept[name]

    def measure(self, size: int, tell: Callable[[dict[str, dict[str, Any]]], None]) -> None:
        """Measure all in turn at one batch size, and report after each; a rival that fails is recorded."""
        found: dict[str, dict[str, Any]] = {}
        works: dict[str, tuple[Work, Times]] = {}
        lengths = [np.array([len(ids) for ids in batch]) for batch, _ in sequences(size, self.arguments.batches)]
        for turn in range(self.arguments.rounds):
            for name in self.names() if turn == 0 else list(works):
                try:
                    if turn == 0:
                        started, found[name] = self.prepare(name, size)
                        works[name] = started, Times()
                    work, times = works[name]
                    self.watch.time(work, times)
                    found[name] |= self._rates(name, times, lengths)
                    found[name] |= {"execution": work.summary()} if isinstance(work, Steps) else {}
                except Exception as error:  # out of memory, no compiler, not installed: keep the others
                    works.pop(name, None)
                    self.kept.pop(name, None)
                    found[name] = {"error": describe(error)}
                tell(_with_ratios(found))

    def _rates(self, name: str, times: Times, lengths: list[NDArray[np.int64]]) -> dict[str, float]:
        """Return the times of a step, and the throughput of its real tokens, without padding."""
        medians = times.medians()
        rates = {**medians, "tokens_per_second": float(np.mean([each.sum() for each in lengths]))}
        if "LoRA" not in name:  # its backward pass skips most of the operations
            rates["tflops"] = float(np.mean([flops(self.shape, each) for each in lengths])) / 1e12
        return {key: value if key in medians else value / medians["run_seconds"] for key, value in rates.items()}


def _with_ratios(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Add each time as a multiple of palbert's; for LoRA, of palbert's LoRA."""
    plain = next(iter(found))
    for name, own in found.items():
        base = found.get("palbert LoRA" if "LoRA" in name else plain, {})
        if "seconds" in own and "seconds" in base:
            own["ratio"] = own["seconds"] / base["seconds"]
            own["run_ratio"] = own["run_seconds"] / base["run_seconds"]
    return found


def show(size: int, found: dict[str, dict[str, Any]]) -> None:
    """Print the table of one batch size."""
    for name, own in found.items():
        if "error" in own:
            print(f"| {size:5} | {name:27} | {own['error']}", flush=True)
            continue
        memory = f"{own['bytes'] / 2**30:5.1f} GiB" if "bytes" in own else "–"
        tflops = f"{own['tflops']:7.2f}" if "tflops" in own else "–"
        ratios = f"{own.get('ratio', 0):6.2f} | {own.get('run_ratio', 0):6.2f}"
        times = f"{own['seconds'] * 1e3:8.2f} | {own['run_seconds'] * 1e3:8.2f}"
        rate = f"{own['tokens_per_second']:10,.0f}"
        print(f"| {size:5} | {name:27} | {times} | {ratios} | {rate} | {tflops} | {memory} |", flush=True)


def parse(given: list[str] | None) -> argparse.Namespace:
    """Parse the command line; the defaults depend on the device."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--shape", choices=SHAPES, default="base")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="ROWS", help="batch sizes; 16 64 256 on CUDA")
    parser.add_argument("--batches", type=int, help="different batches, each timed in every round; 12 on CUDA")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--palbert", nargs="+", choices=("auto", "off"), help="how palbert captures steps")
    parser.add_argument("--rivals", nargs="*", choices=RIVALS, help="all of them on CUDA")
    parser.add_argument("--out", type=Path, help="also write the JSON line to this file, as results come in")
    parser.add_argument("--keep", action="store_true", help="keep the results in --out, and add missing ones")
    arguments = parser.parse_args(given)
    if arguments.keep and not (arguments.out and arguments.out.is_file()):
        parser.error("--keep needs the file of a former run as --out")
    cuda = choose_device(arguments.device).type == "cuda"
    arguments.sizes = arguments.sizes or ([16, 64, 256] if cuda else [16])
    arguments.batches = arguments.batches or (12 if cuda else 3)
    arguments.palbert = arguments.palbert or (["auto", "off"] if cuda and HAS_CAPTURE else ["auto"])
    if arguments.rivals is None:
        arguments.rivals = list(RIVALS) if cuda else ["transformers fp32"]
    return arguments


def main(given: list[str] | None = None) -> None:
    """Measure; print a table and one JSON line."""
    arguments = parse(given)
    bench = Bench(arguments)
    facts: dict[str, Any] = {
        "benchmark": "train_step",
        "shape": arguments.shape,
        "batches": arguments.batches,
        "rounds": arguments.rounds,
        "capture": HAS_CAPTURE,
        "flops": FORMULA,
        **machine_facts(bench.device, transformers=transformers.__version__),
        "sizes": json.loads(arguments.out.read_text("utf-8"))["sizes"] if arguments.keep else {},
    }
    heading = "step, ms | in a run, ms | × palbert | in a run | tokens/s in a run | TFLOP/s | memory"
    print(f"| rows | {'':27} | {heading} |\n|---|---|---|---|---|---|---|---|---|")
    compiled = [name for name in arguments.rivals if RIVALS[name].get("compiled")]
    others = [name for name in arguments.rivals if name not in compiled]
    # Compiled rivals come last, with palbert again: they take longer than all others at all sizes together.
    for rivals in [others, compiled] if compiled else [others]:
        arguments.rivals = rivals
        for size in arguments.sizes:
            known = facts["sizes"].setdefault(str(size), {})
            before = list(known)

            def tell(found: dict[str, dict[str, Any]], known: Any = known, before: Any = before) -> None:
                known.update({name: own for name, own in found.items() if name not in before})
                write(facts, arguments.out)

            bench.measure(size, tell)
            show(size, {name: own for name, own in known.items() if name not in before})
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
