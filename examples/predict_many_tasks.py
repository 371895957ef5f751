"""Ask all tasks of a run about the same texts: python examples/predict_many_tasks.py --out runs/demo."""

import argparse
from itertools import combinations
from pathlib import Path

import palbert

TEXTS = [
    "The guitarist played all night and nobody wanted to leave.",
    "A man is playing an instrument on stage.",
    "Is there a concert on Saturday?",
]
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="the run; trained first if it does not exist")
parser.add_argument("--encoder", default="minilm", help="for training: minilm, a folder, or a Hub id")
parser.add_argument("--set", action="append", default=[], help="for training: a setting, as in palbert train")
options = parser.parse_args()

if not options.out.exists():
    palbert.train("demo", out=options.out, overrides=[f"encoder={options.encoder}", *options.set])

# One model answers for all of its tasks. Loading it takes most of the time, so load it once.
model = palbert.load(options.out)
pairs = list(combinations(TEXTS, 2))
for name, task in model.tasks.items():
    print(f"\n{name}: {task.kind} text, answers with {', '.join(task.classes) or 'a number'}")
    # Many rows at once are faster than one by one: rows of similar length share a batch.
    rows = TEXTS if task.kind == "single" else pairs
    for row, prediction in zip(rows, model.predict(name, rows), strict=True):
        if prediction.probabilities is None:
            shown = f"{prediction.answer:.2f}"
        else:
            shown = f"{prediction.answer} ({max(prediction.probabilities.values()):.0%})"
        print(f"  {shown:<28} {row if isinstance(row, str) else ' / '.join(row)}")
