"""Trainers for benchmarks: palbert's own, with randomly initialised encoders and synthetic rows in memory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from palbert.build import Machine, build_model, build_trainer
from palbert.data.dataset import Dataset
from palbert.data.ragged import Ragged, Texts, offsets_of
from palbert.data.tokenizer import TextTokenizer
from palbert.data.training_set import TrainingSet
from palbert.model.config import EncoderConfig
from palbert.model.encoder import Encoder
from palbert.model.mixout import mix_out
from palbert.recipe.load import make_recipe
from palbert.recipe.schema import Recipe
from palbert.recipe.sections import RunSection
from palbert.runtime.distributed import Ranks
from palbert.runtime.seeding import seed_everything
from palbert.targets.number import Number
from palbert.tasks.spec import Task
from palbert.training.trainer import Trainer

VOCABULARY = 30522
LONGEST = 512
HAS_CAPTURE = "capture" in RunSection.model_fields
"""Whether recipes have a setting for the capture of steps."""


class Shape(NamedTuple):
    """The size of an encoder; the feed-forward block is four times as wide as the hidden size."""

    layers: int
    hidden: int
    heads: int


SHAPES = {
    "tiny": Shape(2, 32, 4),
    "minilm": Shape(6, 384, 12),
    "small": Shape(12, 384, 12),
    "base": Shape(12, 768, 12),
    "large": Shape(24, 1024, 16),
}

CLASSES = {"kind": "single", "target": "classes", "classes": list("01234"), "text": "text", "pooling": "pooler"}
"""A task with five classes on the tanh pooler, like BertForSequenceClassification."""


def draw_lengths(count: int, *, length: int | None = None, seed: int = 0) -> NDArray[np.int64]:
    """Return sequence lengths: all equal, or as in real pairs, lognormal(3.25, 0.45), at most 128."""
    if length:
        return np.full(count, length, dtype=np.int64)
    drawn = np.random.default_rng(seed).lognormal(3.25, 0.45, count)
    return np.clip(drawn, 5, 128).astype(np.int64)


def make_tokenizer() -> TextTokenizer:
    """Return a tokenizer with BERT's special tokens."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return TextTokenizer(tokenizer)


def make_up(task: Task, lengths: NDArray[np.int64], tokenizer: TextTokenizer, *, seed: int = 0) -> Dataset:
    """Make synthetic rows of a task whose sequences have these lengths, including special tokens."""
    generator = np.random.default_rng(seed)
    special = tokenizer.template.single if task.kind == "single" else tokenizer.template.pair
    left = np.maximum(lengths - special, len(task.text))
    columns = [left] if task.kind == "single" else [left // 2, left - left // 2]
    tokens = tuple(
        Ragged(generator.integers(5, VOCABULARY, sizes.sum(), dtype=np.int32), offsets_of(sizes)) for sizes in columns
    )
    rows = len(lengths)
    labels: NDArray[Any]
    if isinstance(task.target, Number):
        labels = generator.uniform(*(task.range or (0.0, 1.0)), rows).astype(np.float32)
    else:
        labels = generator.integers(0, len(task.classes), rows)
    names = Texts.from_rows([str(row) for row in range(rows)])
    return Dataset(task.name, "train", names, (names,) * len(columns), tokens, labels, 0, 0, {})


def random_encoder(recipe: Recipe, shape: Shape) -> Encoder:
    """Make an encoder with BERT's dropout, unless the recipe sets another."""
    section = recipe.encoder
    encoder = Encoder(
        EncoderConfig(
            family="bert",
            vocabulary_size=VOCABULARY,
            hidden_size=shape.hidden,
            embedding_size=shape.hidden,
            layers=shape.layers,
            heads=shape.heads,
            intermediate_size=4 * shape.hidden,
            max_length=LONGEST,
            dropout=0.1 if section.dropout is None else section.dropout,
            attention_dropout=0.1 if section.attention_dropout is None else section.attention_dropout,
            pooler=True,
        )
    )
    if section.mixout:
        mix_out(encoder, section.mixout)
    return encoder


def make_trainer(
    values: Mapping[str, Any], *, shape: Shape, batches: int, length: int | None = None, ranks: Ranks | None = None
) -> Trainer:
    """Make the trainer of a recipe with random weights.

    Args:
        values: The recipe.
        shape: The size of the encoder.
        batches: The number of batches in each set.
        length: Tokens per sequence; unless given, lengths are mixed as in real pairs.
        ranks: The processes that train together.
    """
    recipe = make_recipe(values, check_files=False)
    machine = Machine.for_recipe(recipe)
    tokenizer = make_tokenizer()
    seed_everything(0)
    with torch.device(machine.device):
        model = build_model(
            recipe.tasks, random_encoder(recipe, shape), adapters=recipe.adapters, relation=recipe.relation
        )
    train = {}
    for seed, (name, spec) in enumerate(recipe.sets.items()):
        batch_size = recipe.batch_size(spec)
        rows = make_up(spec.task, draw_lengths(batch_size * batches, length=length, seed=seed), tokenizer)
        train[name] = TrainingSet.of(spec, rows, batch_size=batch_size)
    return build_trainer(
        recipe,
        model.to(machine.device),
        template=tokenizer.template,
        machine=machine,
        train=train,
        evaluate=lambda *_, **__: None,  # type: ignore[arg-type]
        ranks=ranks,
    )


def plain_recipe(*, device: str, batch_size: int, capture: str = "auto", **training: Any) -> dict[str, Any]:
    """Return the values of a recipe with one task; `capture` is the capture of steps on CUDA."""
    return {
        "tasks": {"task": CLASSES},
        "training": {"epochs": 1, "steps_per_epoch": 1000, "batch_size": batch_size, **training},
        "run": {"device": device, **({"capture": capture} if HAS_CAPTURE else {})},
    }


class Steps:
    """The first steps of a trainer's plan, to be repeated on the same batches."""

    def __init__(self, trainer: Trainer, count: int) -> None:
        self.trainer = trainer
        self.plan = trainer.sampler.epoch(1)[:count]
        self.batches = []
        draws = dict.fromkeys(trainer.sampler.rows, 0)
        for sets in self.plan:
            self.batches.append(trainer.feed(sets, draws))
            trainer.feed.count(sets, draws)
        trainer.model.train()

    def step(self, number: int) -> None:
        """Do one step on batches that are on the device."""
        self.trainer.step(self.batches[number])
        self.trainer.position.step += 1

    def tokens(self) -> float:
        """Return the mean number of tokens of a step, without filling."""
        batches = [batch for step in self.batches for batch in step]
        own = [(batch.starts.diff().cpu(), part.sequences) for batch in batches for part in batch.parts.values()]
        return sum(int(lengths[sequences].sum()) for lengths, sequences in own) / len(self.batches)

    def summary(self) -> str:
        """Return how the trainer computed the steps: captured or not, and why not."""
        execution = getattr(self.trainer, "execution", None)
        return execution.summary() if execution else ""

    def run(self) -> None:
        """Do all steps as a run does, with a thread that makes the batches."""
        draws = dict.fromkeys(self.trainer.sampler.rows, 0)
        with closing(self.trainer.feed.ahead(self.plan, draws)) as feed:
            for batches in feed:
                self.trainer.step(batches)
                self.trainer.position.step += 1


def flops(shape: Shape, lengths: NDArray[np.int64]) -> float:
    """Return the floating-point operations of a training step on sequences of these lengths.

    6 × the layers' parameters × tokens, and for the attention's two products, forward and backward,
    12 × layers × hidden × the sum of squared lengths.
    """
    layers = shape.layers * (12 * shape.hidden**2 + 13 * shape.hidden)
    attention = 12 * shape.layers * shape.hidden * float(np.square(lengths).sum())
    return 6 * layers * float(lengths.sum()) + attention
