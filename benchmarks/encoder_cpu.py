"""Training step and inference on the CPU: the packed encoder against transformers on the same mixed lengths."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from measuring import machine_facts, write

from palbert.batch import PackedBatch
from palbert.model.config import EncoderConfig
from palbert.model.encoder import Encoder

SHAPE: dict[str, Any] = {"hidden_size": 384, "intermediate_size": 1536}
LAYERS, HEADS, VOCABULARY, BATCH, REPEATS = 6, 12, 30522, 32, 9


def lengths(generator: torch.Generator) -> torch.Tensor:
    """Draw sentence lengths as in real pairs: lognormal(3.25, 0.45), at most 128."""
    drawn = torch.exp(3.25 + 0.45 * torch.randn(BATCH, generator=generator))
    return drawn.clamp(3, 128).long()


def packed(ids: list[torch.Tensor]) -> PackedBatch:
    """Concatenate sequences."""
    sizes = torch.tensor([len(each) for each in ids])
    return PackedBatch(
        ids=torch.cat(ids),
        positions=torch.cat([torch.arange(size) for size in sizes]),
        types=torch.zeros(int(sizes.sum()), dtype=torch.long),
        starts=torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)]).int(),
        max_length=int(sizes.max()),
    )


def padded(ids: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Pad sequences to the longest one."""
    matrix = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(each) for each in ids], batch_first=True)
    return {"input_ids": matrix, "attention_mask": mask}


def last_hidden_state(model: Any, ids: list[torch.Tensor]) -> torch.Tensor:
    """Run a model of transformers on padded sequences."""
    states: torch.Tensor = model(**padded(ids)).last_hidden_state
    return states


def trainer(model: torch.nn.Module, forward: Callable[[list[torch.Tensor]], torch.Tensor]) -> Callable[..., None]:
    """Return a function that does a whole training step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    def step(ids: list[torch.Tensor]) -> None:
        model.train()
        torch.autograd.backward(forward(ids).square().mean())
        optimizer.step()
        optimizer.zero_grad()

    return step


def answerer(model: torch.nn.Module, forward: Callable[[list[torch.Tensor]], torch.Tensor]) -> Callable[..., None]:
    """Return a function that does one inference."""

    def answer(ids: list[torch.Tensor]) -> None:
        model.eval()
        with torch.inference_mode():
            forward(ids)

    return answer


def main() -> None:
    """Measure all in turn, so that a busy machine affects all alike."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="also write the JSON line to this file")
    out = parser.parse_args().out
    generator = torch.Generator().manual_seed(0)
    batches = [
        [torch.randint(5, VOCABULARY, (int(size),), generator=generator) for size in lengths(generator)]
        for _ in range(REPEATS + 2)
    ]
    config = EncoderConfig(
        family="bert",
        vocabulary_size=VOCABULARY,
        embedding_size=384,
        layers=LAYERS,
        heads=HEADS,
        max_length=512,
        **SHAPE,
    )
    ours = Encoder(config)
    models: dict[str, tuple[torch.nn.Module, Callable[[list[torch.Tensor]], torch.Tensor]]] = {
        "palbert": (ours, lambda ids: ours(packed(ids)))
    }
    for attention in ("eager", "sdpa"):
        settings = transformers.BertConfig(
            vocab_size=VOCABULARY,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            **SHAPE,
            attn_implementation=attention,
        )
        model = transformers.BertModel(settings, add_pooling_layer=False)
        models[f"transformers {attention}"] = (
            model,
            partial(last_hidden_state, model),
        )
    times: dict[str, dict[str, float]] = {}
    for kind, make in (("train", trainer), ("inference", answerer)):
        runs = {name: make(*pair) for name, pair in models.items()}
        measured: dict[str, list[float]] = {name: [] for name in runs}
        for number, ids in enumerate(batches):
            for name, run in runs.items():
                start = time.perf_counter()
                run(ids)
                if number >= 2:  # the first round is a warm-up
                    measured[name].append(time.perf_counter() - start)
        times[kind] = {name: statistics.median(values) for name, values in measured.items()}
    print(f"{'':20}{'train step':>12}{'ratio':>8}{'inference':>12}{'ratio':>8}")
    for name in models:
        row = [times[kind][name] for kind in times]
        ratios = [times[kind][name] / times[kind]["palbert"] for kind in times]
        print(f"{name:20}{row[0] * 1e3:9.0f} ms{ratios[0]:8.2f}{row[1] * 1e3:9.0f} ms{ratios[1]:8.2f}")
    machine = machine_facts(torch.device("cpu"), transformers=transformers.__version__)
    facts = {"benchmark": "encoder_cpu", "shape": "minilm", "batch_size": BATCH, **machine, "seconds": times}
    write(facts, out)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
