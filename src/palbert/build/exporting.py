"""Exporting: the encoder of a model as a folder that transformers and sentence-transformers load."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from palbert.build.checkpoint import OpenedCheckpoint
from palbert.data.tokenizer import MASKS, TextTokenizer
from palbert.errors import DataError, did_you_mean
from palbert.model.adapters import Adapter
from palbert.model.config import EncoderConfig
from palbert.model.encoder import Encoder
from palbert.model.families import export, write_config
from palbert.model.multitask import MultiTaskModel
from palbert.registry import FAMILIES
from palbert.tasks.spec import Task

CLASSES = {
    "bert": "BertModel", "camembert": "CamembertModel", "distilbert": "DistilBertModel", "electra": "ElectraModel",
    "modernbert": "ModernBertModel", "mpnet": "MPNetModel", "roberta": "RobertaModel",
    "xlm-roberta": "XLMRobertaModel",
}  # fmt: skip
"""What transformers calls the encoders of each family; other tools read it from config.json."""
SPECIAL = {
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "mask_token": MASKS,
}
"""The names of the special tokens in the supported families."""
POOLINGS = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
"""Poolings that sentence-transformers has too, with their switches there."""

LEAVE_OUT = "or leave the adapters out with --without-adapters (without_adapters=True)."

log = logging.getLogger(__name__)


def adapter_to_merge(opened: OpenedCheckpoint, *, task: str | None, without_adapters: bool) -> str | None:
    """Return the owner of the adapter that all tasks have, or the named one; None if there is none.

    Args:
        opened: The model.
        task: The task whose adapter is wanted.
        without_adapters: Whether adapters are left out.

    Raises:
        DataError: Tasks have different adapters and none is named.
    """
    tasks, adapter_of = opened.tasks, opened.model.adapter_of
    if task is not None and task not in tasks:
        raise DataError(f"Unknown task '{task}'.", hint=did_you_mean(task, tasks))
    owners = {adapter_of.get(name) for name in ([task] if task is not None else tasks)}
    if without_adapters or not owners:
        return None
    if len(owners) > 1:
        raise DataError(
            "Tasks of this model have adapters of their own, so there is no encoder that all of them use.",
            hint=f"Name a task with --task ({', '.join(tasks)}), {LEAVE_OUT}",
        )
    return owners.pop()


def merge_adapter(model: MultiTaskModel, owner: str) -> None:
    """Add what an adapter does to the weights of the encoder; raise DataError if weights cannot do it."""
    adapter: Adapter = model.adapters[owner]  # type: ignore[assignment]
    for number, block in enumerate(model.encoder.blocks()):
        update = adapter.weight_update(number)
        if update is None:
            raise DataError(
                f"The adapters of this model, {type(adapter).__name__}, cannot be merged into the weights of an "
                "encoder, and other libraries have no layers for them.",
                hint=f"Train with LoRA or without adapters, {LEAVE_OUT}",
            )
        with torch.no_grad():
            block.query_key_value.weight += update


def common_pooling(tasks: Iterable[Task]) -> str:
    """Return the pooling that all tasks have, if sentence-transformers has it, or else "mean"."""
    names = {task.pooling.name for task in tasks}
    if len(names) == 1 and names <= POOLINGS.keys():
        return names.pop()
    if names:
        log.warning("The tasks' poolings, %s, cannot all be exported: the folder has mean.", ", ".join(sorted(names)))
    return "mean"


def write_encoder(folder: Path, encoder: Encoder, tokenizer: TextTokenizer, *, max_length: int) -> None:
    """Write what `transformers.AutoModel` and `AutoTokenizer` read.

    Args:
        folder: An empty folder.
        encoder: The encoder, on the CPU.
        tokenizer: Its tokenizer.
        max_length: Tokens that a text may have, special ones included.
    """
    config = encoder.config
    settings = encoder_settings(config, tokenizer)  # it raises an error where the family has no such encoder
    prefix = FAMILIES[config.family].prefix
    weights = {name.removeprefix(prefix): value.detach().contiguous() for name, value in export(encoder).items()}
    safetensors.torch.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # safetensors hides its files from others
    tokenizer.save(folder / "tokenizer.json")
    write_json(folder / "config.json", settings)
    write_json(folder / "tokenizer_config.json", tokenizer_settings(config, tokenizer, max_length))


def write_sentence_modules(folder: Path, *, hidden_size: int, max_length: int, pooling: str) -> None:
    """Write what `SentenceTransformer` reads in addition."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    modules = [
        {"idx": number, "name": str(number), "path": place, "type": f"sentence_transformers.models.{kind}"}
        for number, (place, kind) in enumerate(kinds.items())
    ]
    write_json(folder / "modules.json", modules)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": max_length, "do_lower_case": False})
    (folder / "1_Pooling").mkdir()
    switches = {switch: name == pooling for name, switch in POOLINGS.items()}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": hidden_size, **switches})


def encoder_settings(config: EncoderConfig, tokenizer: TextTokenizer) -> dict[str, Any]:
    """Return the content of config.json."""
    values = write_config(config)
    padding = tokenizer.tokenizer.token_to_id(_special(tokenizer).get("pad_token", ""))
    if "pad_token_id" not in values and padding is not None:
        values["pad_token_id"] = padding
    architecture = CLASSES.get(config.family)
    return {**({"architectures": [architecture]} if architecture else {}), **values, "dtype": "float32"}


def _special(tokenizer: TextTokenizer) -> dict[str, str]:
    """Return the special tokens that the tokenizer has, by their role."""
    known = tokenizer.tokenizer.get_vocab()
    found = {role: [name for name in names if name in known] for role, names in SPECIAL.items()}
    return {role: names[0] for role, names in found.items() if names}


def tokenizer_settings(config: EncoderConfig, tokenizer: TextTokenizer, max_length: int) -> dict[str, Any]:
    """Return the content of tokenizer_config.json."""
    types = ["token_type_ids"] if config.type_vocabulary_size > 1 else []
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "model_input_names": ["input_ids", *types, "attention_mask"],
        **_special(tokenizer),
    }


def write_json(path: Path, value: Any) -> None:
    """Write a value as a file of JSON."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
