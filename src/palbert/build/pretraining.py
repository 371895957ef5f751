"""Further pretraining: the texts and the trainer of masked words that a recipe asks for."""

from __future__ import annotations

from pathlib import Path

from palbert.build.data import load_training_sets
from palbert.build.machine import Machine
from palbert.build.named import make
from palbert.build.sampling import make_buckets
from palbert.build.trainer import make_execution, make_non_finite, make_scale
from palbert.data.corpus import Corpus, split_corpus
from palbert.data.tokenizer import TextTokenizer
from palbert.data.training_set import TrainingSet
from palbert.errors import RecipeError
from palbert.gradients.sum import Sum
from palbert.model.config import EncoderConfig
from palbert.model.masked import MaskedModel
from palbert.objectives.mlm import MLM, Masking
from palbert.readers import read_lines
from palbert.recipe.schema import Recipe
from palbert.recipe.sections import PretrainingSection
from palbert.registry import SCHEDULES
from palbert.runtime.distributed import Ranks
from palbert.runtime.files import sha256
from palbert.training.averaging import NoAverage
from palbert.training.execution import Eager
from palbert.training.feed import Feed
from palbert.training.held_out import HeldOut
from palbert.training.optimizer import make_optimizer
from palbert.training.samplers import Sampler, Sequential, Settings
from palbert.training.trainer import Trainer

NAME = "mlm"
"""The name of the only training set, and of its losses in metrics.jsonl."""


def check_pretraining(section: PretrainingSection, tokenizer: TextTokenizer, config: EncoderConfig) -> None:
    """Raise RecipeError for a length that the encoder cannot take; raise EncoderError if it has no mask token."""
    tokenizer.mask_id()
    least, most = tokenizer.template.single + 1, config.max_length
    if not least <= section.max_length <= most:
        raise RecipeError(
            f"pretraining.max_length: expected {least} to {most} tokens for this encoder, found {section.max_length}."
        )


def load_corpus(
    recipe: Recipe, section: PretrainingSection, tokenizer: TextTokenizer
) -> tuple[Corpus, Corpus, dict[str, str]]:
    """Return the texts to train on, the held-out ones, and the hash of each file that they come from."""
    datasets = [each.rows for each in load_training_sets(recipe, tokenizer).values()]
    columns = [column for dataset in datasets for column in dataset.tokens]
    columns += [tokenizer(read_lines(file)) for file in section.text]
    files = {file: value for dataset in datasets for file, value in dataset.files.items()}
    files |= {file: sha256(Path(file)) for file in section.text}
    train, held_out = split_corpus(
        columns, room=section.max_length - tokenizer.template.single, held_out=section.held_out, seed=recipe.seed
    )
    return train, held_out, files


def build_pretrainer(
    recipe: Recipe,
    section: PretrainingSection,
    model: MaskedModel,
    *,
    tokenizer: TextTokenizer,
    machine: Machine,
    train: Corpus,
    held_out: Corpus,
    ranks: Ranks | None = None,
) -> Trainer:
    """Make the trainer of masked words, without hooks."""
    rates, ranks = recipe.optimizer, ranks or Ranks()
    objective = _make_objective(section, tokenizer, model.encoder.config).to(machine.device)
    objective.join(ranks)
    sets = {NAME: TrainingSet(NAME, NAME, train, max_length=section.max_length, batch_size=section.batch_size)}
    buckets = make_buckets(sets, tokenizer.template, machine.device) if ranks.size == 1 else None
    return Trainer(
        model,
        sampler=_make_sampler(section, rows=len(train), seed=recipe.seed),
        # Without ranks: the first process hides words in all rows of a step, and each computes its own.
        feed=Feed(sets, seed=recipe.seed, template=tokenizer.template, device=machine.device, buckets=buckets),
        objective=objective,
        gradients=_make_gradients(model, ranks),
        optimizer=make_optimizer(
            model.roles(),
            learning_rates=dict.fromkeys(("encoder", "heads"), section.learning_rate),
            weight_decay=rates.weight_decay,
            betas=rates.betas,
            epsilon=rates.epsilon,
        ),
        schedule=make(SCHEDULES, section.schedule, "pretraining.schedule"),
        clip=recipe.training.clip,
        arithmetic=machine.arithmetic,
        average=NoAverage(model),
        scale=make_scale(objective, machine),
        non_finite=make_non_finite(recipe),
        execution=make_execution(recipe, machine.device) if ranks.size == 1 else Eager(machine.device),
        ranks=ranks,
        evaluate=HeldOut(
            objective,
            held_out,
            template=tokenizer.template,
            max_length=section.max_length,
            device=machine.device,
            arithmetic=machine.arithmetic,
            seed=recipe.seed,
            ranks=ranks,
        ),
    )


def _make_objective(section: PretrainingSection, tokenizer: TextTokenizer, config: EncoderConfig) -> MLM:
    masking = Masking(
        share=section.mask,
        mask_id=tokenizer.mask_id(),
        ordinary_ids=tokenizer.ordinary_ids(),
        vocabulary_size=config.vocabulary_size,
    )
    return MLM(masking, name=NAME)


def _make_gradients(model: MaskedModel, ranks: Ranks) -> Sum:
    gradients = Sum({NAME: 1.0}, parameters=[value for value in model.parameters() if value.requires_grad])
    gradients.join(ranks)
    return gradients


def _make_sampler(section: PretrainingSection, *, rows: int, seed: int) -> Sampler:
    return Sequential(
        Settings(
            rows={NAME: rows},
            batch_sizes={NAME: section.batch_size},
            tasks={NAME: NAME},
            epochs=section.epochs,
            steps=section.steps_per_epoch,
            seed=seed,
        )
    )
