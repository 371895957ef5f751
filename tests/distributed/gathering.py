"""One of several processes, or the only one: evaluates, contrasts, trains and resumes, and writes what it found."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from palbert.build import build_inference
from palbert.inference.evaluator import evaluate_tasks
from palbert.recipe.load import make_recipe
from palbert.runtime.distributed import Ranks, find_ranks
from palbert.runtime.run_folder import RunFolder
from palbert.training.trainer import Hook, Trainer
from palbert.verbs.job import Job
from palbert.verbs.pretrain import PretrainingJob
from palbert.verbs.train import TrainingJob


def job(values: dict[str, Any], folder: Path, ranks: Ranks, *, resume: bool = False) -> TrainingJob:
    return TrainingJob(make_recipe(values), RunFolder(folder), resume=resume, ranks=ranks).prepare()


def rows_of(batch: Any) -> dict[str, list[list[int]]]:
    """Return the token ids of each counted sequence, by set."""
    starts = batch.starts.tolist()
    return {
        name: [
            batch.ids[starts[place] : starts[place + 1]].tolist()
            for place in range(part.sequences.start, part.sequences.stop)
        ]
        for name, part in batch.parts.items()
        if part.share
    }


class Plan(Hook):
    """Keep the rows of every step; optionally stop after one."""

    def __init__(self, trainer: Trainer, stop: int | None = None) -> None:
        self.rows: dict[int, list[dict[str, list[list[int]]]]] = {}
        self.tokens: list[int] = []
        self.stop = stop
        step = trainer.step

        def recorded(batches: Any) -> Any:
            self.rows[trainer.position.step + 1] = [rows_of(batch) for batch in batches]
            return step(batches)

        trainer.step = recorded  # type: ignore[method-assign]

    def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
        self.tokens.append(tokens)
        trainer.stopping = trainer.position.step == self.stop


def fit(run: Job, ranks: Ranks, stop: int | None) -> dict[str, Any]:
    """Train until a step or the end; return the rows of this process and the hash of its weights."""
    plan, made = Plan(run.trainer, stop), run.make_hooks
    run.make_hooks = lambda best: [plan, *made(best)]  # type: ignore[method-assign]
    assert run.fit() is (stop is None)
    ranks.wait()
    weights = b"".join(value.numpy().tobytes() for value in run.model.state_dict().values())
    return {"rows": plan.rows, "tokens": plan.tokens, "weights": hashlib.sha256(weights).hexdigest()}


def train(values: dict[str, Any], folder: Path, ranks: Ranks, *, resume: bool, stop: int | None) -> dict[str, Any]:
    return fit(job(values, folder, ranks, resume=resume), ranks, stop)


def pretrain(
    values: dict[str, Any], folder: Path, ranks: Ranks, *, resume: bool = False, stop: int | None = None
) -> dict[str, Any]:
    """Pretrain further until a step or the end."""
    run = PretrainingJob(make_recipe(values), RunFolder(folder), resume=resume, ranks=ranks).prepare()
    return fit(run, ranks, stop)


def contrast(values: dict[str, Any], folder: Path, ranks: Ranks) -> dict[str, Any]:
    """Return the loss and the gradient of one step."""
    trainer = job(values, folder, ranks).trainer
    trainer.model.train()
    sets = tuple(trainer.sampler.rows)
    batches = trainer.feed(sets, trainer.position.draws)
    losses: dict[str, Any] = {}
    for batch in batches:
        for name, loss in trainer._losses_and_gradients(batch).items():
            losses[name] = losses.get(name, 0) + loss
    for exchange in trainer._sum_over_processes(losses):
        exchange()
    trainer.gradients.combine()
    gradient = torch.cat([parameter.grad.flatten() for parameter in trainer.parameters if parameter.grad is not None])
    return {"losses": [float(total) for total in losses.values()], "gradient": gradient.tolist()}


def outputs(values: dict[str, Any], folder: Path, ranks: Ranks) -> dict[str, Any]:
    run = job(values, folder, ranks)
    inference = build_inference(run.model, tokenizer=run.tokenizer, machine=run.machine, ranks=ranks)
    results = evaluate_tasks(inference, run.recipe.tasks, run.dev)
    return {result.task: [result.scores, result.outputs.tolist()] for result in results if result.outputs is not None}


def main(folder: Path, what: str) -> None:
    torch.set_num_threads(1)
    ranks, cases = find_ranks(), json.loads((folder / "cases.json").read_text())
    found: dict[str, Any] = {}
    with ranks.connected(torch.device("cpu")):
        if what == "start":
            found["contrast"] = {
                name: contrast(case, folder / "none", ranks) for name, case in cases["contrast"].items()
            }
            found["outputs"] = outputs(cases["plan"], folder / "none", ranks)
            found["whole"] = train(cases["plan"], folder / f"whole-{ranks.size}", ranks, resume=False, stop=None)
            found["begun"] = train(cases["plan"], folder / f"begun-{ranks.size}", ranks, resume=False, stop=3)
            for name, case in cases["pretraining"].items():
                found[name] = pretrain(case, folder / f"{name}-{ranks.size}", ranks)
            pretrain(cases["pretraining"]["pretrained"], folder / f"pretraining-{ranks.size}", ranks, stop=3)
        else:
            found["rest"] = train(cases["plan"], folder / what, ranks, resume=True, stop=None)
            values = cases["pretraining"]["pretrained"]
            found["pretrained"] = pretrain(values, folder / f"{what}-pretraining", ranks, resume=True)
    (folder / f"{what}-{ranks.rank}-of-{ranks.size}.json").write_text(json.dumps(found))


main(Path(sys.argv[1]), sys.argv[2])
sys.stdout.flush()
os._exit(0)
