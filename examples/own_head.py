"""Train with a head of your own, without touching palbert: python examples/own_head.py --out runs/own-head."""

import argparse
import json
from pathlib import Path

from torch import Tensor, nn

import palbert
from palbert.extend import Head


class Bilinear(Head):
    """Score two vectors by w · (U a ⊙ V b). Options in the recipe, such as `rank`, are keyword arguments here."""

    vectors = 2  # for siamese pairs; heads of single texts and joint pairs have 1, the default

    def __init__(self, hidden_size: int, *, outputs: int, dropout: float, rank: int = 32) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.first, self.second = nn.Linear(hidden_size, rank), nn.Linear(hidden_size, rank)
        self.output = nn.Linear(rank, outputs)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Map two vectors per row, (rows, hidden) each, to (rows, outputs)."""
        return self.output(self.first(self.dropout(a)) * self.second(self.dropout(b)))


def main() -> None:
    """Train similarity on the sample rows, and print the score and two answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", default="minilm", help="minilm, a folder, or a Hub id")
    parser.add_argument("--out", type=Path, default=Path("runs/own-head"))
    parser.add_argument("--steps", type=int, default=40, help="steps per epoch")
    options = parser.parse_args()
    recipe = palbert.make_recipe(
        {
            "data": "samples",  # the sample rows inside palbert, which knows the settings of sts
            "encoder": options.encoder,
            "tasks": {
                "sts": {
                    "pair_input": "siamese",  # each sentence is encoded separately: the head gets two vectors
                    "pooling": "mean",
                    # "module:Class", from a module that Python can import; the rest are options of the class.
                    "head": {"name": "own_head:Bilinear", "rank": 64},
                }
            },
            "training": {"epochs": 3, "steps_per_epoch": options.steps, "batch_size": 16},
            "optimizer": {"learning_rate": 5e-5, "head_learning_rate": 1e-3},
        }
    )
    run = palbert.train(recipe, out=options.out)
    scores = json.loads((run / "report.json").read_text(encoding="utf-8"))["tasks"]["sts"]
    print(f"Pearson correlation on the dev rows: {scores['pearson']:.3f}")
    print(palbert.load(run).predict("sts", [("A cat sleeps.", "A kitten is asleep."), ("A cat sleeps.", "Buy milk.")]))


if __name__ == "__main__":
    main()
