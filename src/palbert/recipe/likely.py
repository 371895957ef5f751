"""Likely keys: what an unknown key of a recipe probably means, in any section and in the words of other tools."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from palbert.recipe.sections import (
    EncoderSection,
    OptimizerSection,
    Phase,
    PretrainingSection,
    RunSection,
    TrainingSection,
)
from palbert.tasks.spec import Task

SYNONYMS = {
    "accumulate_grad_batches": "accumulation",
    "amp": "precision",
    "arch": "encoder",
    "backbone": "encoder",
    "base_model": "encoder",
    "batch": "batch_size",
    "batchsize": "batch_size",
    "bert_model": "encoder",
    "bs": "batch_size",
    "class_names": "classes",
    "dev_data": "dev",
    "dev_file": "dev",
    "early_stopping_patience": "patience",
    "early_stopping": "patience",
    "eps": "epsilon",
    "eval_batch_size": "batch_size",
    "eval_file": "dev",
    "eval_metric": "metrics",
    "eval_steps": "evaluate_every",
    "fp16": "precision",
    "bf16": "precision",
    "grad_clip": "clip",
    "gradient_accumulation_steps": "accumulation",
    "gradient_checkpointing": "recompute",
    "gradient_clip_val": "clip",
    "id_column": "id",
    "input": "text",
    "inputs": "text",
    "label_column": "label",
    "label_names": "classes",
    "learning_rate_scheduler": "schedule",
    "logging_steps": "log_every",
    "lr": "learning_rate",
    "lr_scheduler": "schedule",
    "lr_scheduler_type": "schedule",
    "max_epochs": "epochs",
    "max_grad_norm": "clip",
    "max_len": "max_length",
    "max_seq_len": "max_length",
    "max_seq_length": "max_length",
    "max_steps": "steps_per_epoch",
    "metric": "metrics",
    "model": "encoder",
    "model_name": "encoder",
    "model_name_or_path": "encoder",
    "n_epochs": "epochs",
    "num_classes": "classes",
    "num_epochs": "epochs",
    "num_labels": "classes",
    "num_train_epochs": "epochs",
    "per_device_train_batch_size": "batch_size",
    "pretrained_model": "encoder",
    "random_seed": "seed",
    "random_state": "seed",
    "report_to": "tensorboard",
    "save_steps": "save_every",
    "scheduler": "schedule",
    "seq_length": "max_length",
    "target_column": "label",
    "test_file": "test",
    "text_column": "text",
    "text_columns": "text",
    "train_batch_size": "batch_size",
    "train_data": "train",
    "train_file": "train",
    "valid": "dev",
    "valid_file": "dev",
    "validation": "dev",
    "validation_file": "dev",
    "wd": "weight_decay",
}
"""Keys of palbert by what other tools call them."""
SECTIONS: dict[str, type[BaseModel]] = {
    "training": TrainingSection,
    "optimizer": OptimizerSection,
    "tasks.NAME": Task,
    "encoder": EncoderSection,
    "run": RunSection,
    "pretraining": PretrainingSection,
}
"""The sections in which a key is looked for, the likely ones first."""
NEAR = 0.8
"""How similar a key of another section must be; one of the same table may be less so."""


def likely_key(place: Sequence[str], siblings: Sequence[str], top: Sequence[str]) -> str | None:
    """Return the one setting that an unknown key probably means, with its place; None if nothing is near.

    Args:
        place: Where the unknown key is, such as ("training", "lr").
        siblings: The known keys of the same table.
        top: The known keys of the recipe itself; none for other files.
    """
    *table, key = place
    name = key.lower().replace("-", "_")
    wanted = SYNONYMS.get(name, name)
    here = {each: ".".join([*table, each]) for each in siblings}
    elsewhere = dict(_elsewhere(table, top))
    if found := here.get(wanted) or elsewhere.get(wanted):
        return found
    near = difflib.get_close_matches(name, here, n=1)
    if near:
        return here[near[0]]
    near = difflib.get_close_matches(name, elsewhere, n=1, cutoff=NEAR)
    return elsewhere[near[0]] if near else None


def _elsewhere(table: Sequence[str], top: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys of other tables with their places; of equal keys, the last one is the likely one."""
    if not top:
        return
    in_task, in_phase = table[:1] == ["tasks"] and len(table) > 1, table[:1] == ["phases"] and len(table) > 1
    for section, model in reversed(SECTIONS.items()):
        place = ".".join(table[:2]) if section == "tasks.NAME" and in_task else section
        if in_phase and section in Phase.model_fields:
            place = ".".join([*table[:2], section])
        yield from ((each, f"{place}.{each}") for each in model.model_fields if each != "name")
    yield from ((each, each) for each in top)
