"""The catalog: settings of the tasks that palbert knows by name, so that a recipe only has to name their files."""

from __future__ import annotations

from typing import Any

SENTIMENT = ("negative", "somewhat negative", "neutral", "somewhat positive", "positive")

CATALOG: dict[str, dict[str, Any]] = {
    # Stanford Sentiment Treebank, five grades (Socher et al. 2013).
    "sst": {
        "kind": "single",
        "target": "classes",
        "classes": SENTIMENT,
        "text": "sentence",
        "label": "sentiment",
    },
    # Quora question pairs: are they duplicates? Two rows of the course's dev file are truncated.
    "quora": {
        "kind": "pair",
        "target": "binary",
        "classes": ("different", "duplicate"),
        "text": ("sentence1", "sentence2"),
        "label": "is_duplicate",
        "bad_rows": "drop",
    },
    # STS benchmark: similarity from 0 (unrelated) to 5 (the same meaning).
    "sts": {
        "kind": "pair",
        "target": "number",
        "range": (0.0, 5.0),
        "text": ("sentence1", "sentence2"),
        "label": "similarity",
    },
    # Counterfactual IMDB: long reviews, two classes.
    "cfimdb": {
        "kind": "single",
        "target": "binary",
        "classes": ("negative", "positive"),
        "text": "sentence",
        "label": "sentiment",
        "batch_size": 8,
        "max_length": 512,
    },
    # Stanford NLI as paraphrase data: entailment is yes, contradiction is no, neutral rows are dropped.
    "snli": {
        "kind": "pair",
        "target": "binary",
        "classes": ("different", "duplicate"),
        "text": ("premise", "hypothesis"),
        "label": "label",
        "labels": {"entailment": 1, "contradiction": 0, "neutral": "drop", "-": "drop"},
    },
}

EXTRA_SETS: dict[str, dict[str, Any]] = {
    # Long reviews with two grades, which become 0 and 4 of five.
    "cfimdb": {"text": "sentence", "label": "sentiment", "labels": "x4", "batch_size": 8, "max_length": 512},
    # Hundreds of thousands of pairs of another kind: drawn a tenth as often as their number suggests.
    "snli": {**{key: CATALOG["snli"][key] for key in ("text", "label", "labels")}, "factor": 0.1},
}
"""Settings of a known set when it is an extra set of another task: `[tasks.quora.extra.snli]`."""

COURSE_FILES: dict[str, dict[str, str]] = {
    "sst": {
        "train": "ids-sst-train.csv",
        "dev": "ids-sst-dev.csv",
        "test": "ids-sst-test-student.csv",
    },
    "quora": {"train": "quora-train.csv", "dev": "quora-dev.csv", "test": "quora-test-student.csv"},
    "sts": {"train": "sts-train.csv", "dev": "sts-dev.csv", "test": "sts-test-student.csv"},
    "cfimdb": {
        "train": "ids-cfimdb-train.csv",
        "dev": "ids-cfimdb-dev.csv",
        "test": "ids-cfimdb-test-student.csv",
    },
    "snli": {"train": "snli-train.tsv", "dev": "snli-dev.tsv", "test": "snli-test.tsv"},
}
"""Files that are looked for in a data folder, named as in the CS224N default final project."""

HUB_SOURCES: dict[str, dict[str, Any]] = {
    "sst": {
        "train": "hf:SetFit/sst5:train",
        "dev": "hf:SetFit/sst5:dev",
        "test": "hf:SetFit/sst5:test",
        "text": "text",
        "label": "label",
    },
    "quora": {
        "train": "hf:nyu-mll/glue/qqp:train",
        "dev": "hf:nyu-mll/glue/qqp:validation",
        "text": ("question1", "question2"),
        "label": "label",
        "id": "idx",
    },
    "sts": {
        "train": "hf:nyu-mll/glue/stsb:train",
        "dev": "hf:nyu-mll/glue/stsb:validation",
        "label": "label",
        "id": "idx",
    },
    "snli": {
        "train": "hf:stanfordnlp/snli/plain_text:train",
        "dev": "hf:stanfordnlp/snli/plain_text:validation",
        "test": "hf:stanfordnlp/snli/plain_text:test",
        "labels": {"0": 1, "1": "drop", "2": 0, "-1": "drop"},
    },
}

SAMPLES = ("sst", "quora", "sts")
"""Tasks with sample rows inside the package."""

SEEN_BY_ENCODERS: dict[str, tuple[str, ...]] = {"quora": ("minilm", "mpnet-base", "bge-")}
"""Parts of the names of encoders that were trained on a task's data themselves."""
