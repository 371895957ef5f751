"""One process of several, or the only one: trains the cases in a folder and writes the results there."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from palbert.model.multitask import MultiTaskModel
from palbert.recipe.load import make_recipe
from palbert.runtime import distributed
from palbert.runtime.distributed import Ranks, find_ranks
from palbert.runtime.run_folder import RunFolder
from palbert.training.checkpoint import module_tensors
from palbert.training.trainer import Evaluation, Hook, Trainer
from palbert.verbs.train import TrainingJob


class Record(Hook):
    """Keep the losses and tokens of every step, and the cosines between tasks."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []

    def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
        cosines = {pair: float(value) for pair, value in trainer.gradients.observations().items()}
        self.steps.append(
            {"losses": {name: float(loss) for name, loss in losses.items()}, "tokens": tokens, "cosines": cosines}
        )


class Stop(Hook):
    """Ask for a stop after a step, as Ctrl-C does."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, trainer: Trainer, losses: dict[str, Tensor], tokens: int) -> None:
        trainer.stopping = trainer.position.step == self.step


def unscored(model: MultiTaskModel, *, epoch: float, step: int) -> Evaluation:
    return Evaluation(epoch=epoch, step=step, overall=0.0, tasks={})


def prepared(values: dict[str, Any], folder: Path, ranks: Ranks, *, resume: bool = False) -> TrainingJob:
    return TrainingJob(make_recipe(values), RunFolder(folder), resume=resume, ranks=ranks).prepare()


def train_case(values: dict[str, Any], folder: Path, ranks: Ranks) -> None:
    """Take all steps of a recipe, without evaluation and files."""
    run = prepared(values, folder / "run", ranks)
    record = Record()
    run.trainer.hooks, run.trainer.evaluate = [record], unscored
    drawn = torch.get_rng_state()[:64].tolist()
    run.trainer.fit()
    place = folder / f"{ranks.rank}-of-{ranks.size}"
    save_file(module_tensors(run.model), f"{place}.safetensors")
    Path(f"{place}.json").write_text(json.dumps({"steps": record.steps, "generator": drawn}))


def resume_case(values: dict[str, Any], folder: Path, ranks: Ranks) -> None:
    """Train without interruption, and again with a stop that only the last process is asked for."""
    prepared(values, folder / "undisturbed", ranks).fit()
    run = prepared(values, folder / "resumed", ranks)
    made = run.make_hooks
    if ranks.rank == ranks.size - 1:
        run.make_hooks = lambda best: [Stop(5), *made(best)]  # type: ignore[method-assign]
    assert not run.fit()
    ranks.wait()
    assert prepared(values, folder / "resumed", ranks, resume=True).fit()
    ranks.wait()


def record_collective_calls(folder: Path, ranks: Ranks) -> None:
    """Make every collective call once, with values that differ between processes."""
    mine = float(ranks.rank + 1)
    parameters = [torch.zeros(2), torch.zeros(3, 2), torch.zeros(()), torch.zeros(1)]
    only_first = torch.full((2,), 5.0) if ranks.is_first else None
    gradients = [only_first, torch.full((3, 2), mine), torch.tensor(mine), None]
    whole = ranks.sum_gradients(gradients, parameters)
    distributed.BUCKET = 3  # a parameter is larger, and two do not fit
    in_pieces = ranks.sum_gradients(gradients, parameters)
    order = folder / "order.txt"
    with ranks.first_process_first():
        order.write_text((order.read_text() if order.exists() else "") + str(ranks.rank))
    added = [torch.full((2, 2), mine).t(), torch.ones(1, dtype=torch.float64), torch.full((4,), mine)]
    ranks.add_in_place(*added)
    layer = torch.nn.Linear(1, 1)
    torch.nn.init.constant_(layer.weight, mine)
    ranks.broadcast_module(layer)
    said = {
        "sums": [None if total is None else total.tolist() for total in whole],
        "in pieces": [None if total is None else total.tolist() for total in in_pieces],
        "in place": [[total.tolist(), str(total.dtype)] for total in added],
        "count": ranks.count(ranks.rank, 1, True),
        "gathered": [found["x"].tolist() for found in ranks.gather({"x": torch.tensor([ranks.rank])})],
        "first": ranks.broadcast(torch.tensor([mine])).tolist(),
        "aligned": layer.weight.tolist(),
    }
    (folder / f"calls-{ranks.rank}.json").write_text(json.dumps(said))


def main(folder: Path) -> None:
    """Go through all cases, in the same order in every process."""
    torch.set_num_threads(1)
    ranks = find_ranks()
    with ranks.connected(torch.device("cpu")):
        for case in sorted(folder.glob("*/case.json")):
            train_case(json.loads(case.read_text()), case.parent, ranks)
        if ranks.size > 1:
            resume_case(json.loads((folder / "resumable.json").read_text()), folder, ranks)
            record_collective_calls(folder, ranks)


main(Path(sys.argv[1]))
sys.stdout.flush()
os._exit(0)  # as the command line ends one of several processes, and says why
