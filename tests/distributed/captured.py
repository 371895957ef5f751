"""One of several processes that share a CUDA device, or the only one: trains with CUDA graphs and without."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from palbert.recipe.load import make_recipe
from palbert.runtime.distributed import Processes, Ranks, find_ranks
from palbert.runtime.run_folder import RunFolder
from palbert.training.checkpoint import module_tensors
from palbert.training.execution import Graphs
from palbert.verbs.train import TrainingJob


class Exchanging(Processes):
    """A process that exchanges gradients even if it is the only one."""

    @property
    def communicate(self) -> bool:
        return True


def steps(values: dict[str, Any], folder: Path, ranks: Ranks) -> dict[str, Any]:
    """Take all steps of an epoch; return the losses, the weights and how the steps were computed."""
    job = TrainingJob(make_recipe(values), RunFolder(folder), ranks=ranks).prepare()
    trainer = job.trainer
    trainer.model.train()
    losses = []
    for number, sets in enumerate(trainer.sampler.epoch(1)):
        found = trainer.step(trainer.feed(sets, dict.fromkeys(sets, number // 3 % 2)))  # shapes repeat
        losses.append({name: float(loss) for name, loss in found.items()})
        trainer.position.step += 1
    replay = trainer.execution.replay if isinstance(trainer.execution, Graphs) else None
    weights = torch.cat([value.flatten() for value in module_tensors(job.model).values()])
    return {
        "losses": losses,
        "weights": weights.tolist(),
        "replayed": replay.replayed if replay else 0,
        "obstacle": replay.obstacle if replay else "",
    }


def main(folder: Path, device: str) -> None:
    found_ranks, cases = find_ranks(), json.loads((folder / "cases.json").read_text())
    ranks = Exchanging(**vars(found_ranks)) if isinstance(found_ranks, Processes) else found_ranks
    found: dict[str, Any] = {}
    with ranks.connected(torch.device(device)):
        for name, case in cases.items():
            case["run"] = {"device": device, "tensorboard": False, "precision": "fp32"}
            found[name] = {
                capture: steps({**case, "run": {**case["run"], "capture": capture}}, folder / "none", ranks)
                for capture in ("auto", "off")
            }
    (folder / f"{ranks.rank}-of-{ranks.size}{'' if ranks.communicate else '-alone'}.json").write_text(json.dumps(found))


main(Path(sys.argv[1]), sys.argv[2])
sys.stdout.flush()
os._exit(0)
