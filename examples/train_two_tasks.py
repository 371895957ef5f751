"""Train two tasks of your own in one model: python examples/train_two_tasks.py --out runs/two-tasks."""

import argparse
from pathlib import Path

import palbert

# Use your own files instead: CSV, TSV, JSONL or Parquet, one file per task and split.
FILES = {
    "tone-train.csv": """message,label
"Answer me now, this is pathetic.",rude
You people are useless.,rude
The meeting is at ten.,neutral
I changed the address.,neutral
Thank you so much for your help!,kind
What a lovely idea.,kind""",
    "tone-dev.csv": """message,label
Stop wasting my time.,rude
The order has two items.,neutral
You made my day.,kind""",
    "same-train.csv": """first,second,label
Where is my parcel?,When will my package arrive?,yes
Where is my parcel?,How do I delete my account?,no
Can I pay by card?,Do you take credit cards?,yes
Can I pay by card?,Which sizes do you have?,no""",
    "same-dev.csv": """first,second,label
How do I reset my password?,I forgot my password. What now?,yes
How do I reset my password?,When do you open on Sunday?,no""",
}
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--encoder", default="minilm", help="minilm, a folder, or a Hub id")
parser.add_argument("--out", type=Path, default=Path("runs/two-tasks"))
parser.add_argument("--steps", type=int, default=20, help="steps per epoch")
options = parser.parse_args()

data = options.out / "data"
data.mkdir(parents=True, exist_ok=True)
for name, text in FILES.items():
    (data / name).write_text(text, encoding="utf-8")

# This could also be a TOML file. Choose any task names; reports, files and predictions use them.
tone = {"kind": "single", "target": "classes", "classes": ["rude", "neutral", "kind"], "text": "message"}
same = {"kind": "pair", "target": "binary", "classes": ["no", "yes"], "text": ["first", "second"]}
recipe = palbert.make_recipe(
    {
        "data": str(data),  # the folder of the files
        "encoder": options.encoder,
        "tasks": {
            "tone": {**tone, "train": "tone-train.csv", "dev": "tone-dev.csv"},
            "same": {**same, "train": "same-train.csv", "dev": "same-dev.csv"},
        },
        "training": {"epochs": 3, "steps_per_epoch": options.steps, "batch_size": 4, "sampler": "round-robin"},
        "optimizer": {"learning_rate": 5e-5, "head_learning_rate": 1e-3},  # new heads may learn faster
    }
)
run = palbert.train(recipe, out=options.out / "run")  # checkpoints, metrics.jsonl, report.html
model = palbert.load(run)
print(model.predict("tone", ["Thanks a lot for waiting!"]))
print(model.predict("same", [("Do you ship abroad?", "Can you send it to another country?")]))
