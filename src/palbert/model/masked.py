"""MaskedModel: an encoder with a head that predicts masked words, for further pretraining."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from palbert.batch import PackedBatch
from palbert.errors import EncoderError, did_you_mean
from palbert.model.activations import ACTIVATIONS
from palbert.model.config import EncoderConfig
from palbert.model.encoder import Encoder
from palbert.model.families import current_name, export, prefix_in
from palbert.model.pretrained import load_encoder, read_settings, read_weights, save_folder
from palbert.registry import FAMILIES

log = logging.getLogger(__name__)


class MaskedHead(nn.Module):
    """Dense layer, activation, LayerNorm, then a score for every word from the word embeddings and a bias.

    The dense layer maps to the width of the embedding tables, so that they can be the decoder.

    Args:
        config: The encoder's configuration.
        activation: A key of `ACTIVATIONS`; the encoder's own unless given.
        dense_bias: Whether the dense layer has a bias.
        output_bias: Whether the scores of words have a bias.
    """

    def __init__(
        self,
        config: EncoderConfig,
        *,
        activation: str | None = None,
        dense_bias: bool = True,
        output_bias: bool = True,
    ) -> None:
        super().__init__()
        name = activation or config.activation
        if not isinstance(name, str) or name not in ACTIVATIONS:
            raise EncoderError(f"Unknown activation '{name}' of a head.", hint=did_you_mean(str(name), ACTIVATIONS))
        self.activation = ACTIVATIONS[name]
        self.dense = nn.Linear(config.hidden_size, config.embedding_size, bias=dense_bias)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.norm_epsilon, bias=config.norm_bias)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary_size)) if output_bias else None
        nn.init.normal_(self.dense.weight, std=config.initializer_range)
        if dense_bias:
            nn.init.zeros_(self.dense.bias)

    def forward(self, hidden: Tensor, words: Tensor) -> Tensor:
        """Map (n, hidden) to scores, (n, vocabulary), by the table of words, (vocabulary, embedding_size)."""
        return F.linear(self.norm(self.activation(self.dense(hidden))), words, self.bias)


class MaskedModel(nn.Module):
    """An encoder and its masked-word head; the decoder is the table of word embeddings itself."""

    def __init__(self, encoder: Encoder, head: MaskedHead) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head

    def forward(self, batch: PackedBatch, places: Tensor) -> Tensor:
        """Return the scores of all words at some places of a batch, (places, vocabulary), in float32."""
        hidden = self.encoder(batch)[places]  # the vocabulary is large: only these places are projected
        scores: Tensor = self.head(hidden, self.encoder.embeddings.word.weight)
        return scores.float()

    def roles(self) -> Iterator[tuple[str, nn.Module]]:
        """Yield the parts that may have learning rates of their own, each with its role."""
        yield "encoder", self.encoder
        yield "heads", self.head


def load_masked(folder: Path, *, dropout: float | None = None, attention_dropout: float | None = None) -> MaskedModel:
    """Load an encoder and its masked-word head from a folder; the head is new if the folder has none.

    Args:
        folder: As `load_encoder` takes it.
        dropout: Overrides the dropout in config.json.
        attention_dropout: Overrides the attention dropout in config.json.

    Raises:
        EncoderError: The encoder cannot be loaded, its head is incomplete, or its decoder is not tied.
    """
    encoder = load_encoder(folder, dropout=dropout, attention_dropout=attention_dropout)
    settings, family = read_settings(folder), FAMILIES[encoder.config.family]
    if not family.masked_head:
        raise EncoderError(f"{folder}: palbert cannot pretrain {encoder.config.family} encoders further.")
    if settings.get("tie_word_embeddings") is False:
        raise EncoderError(
            f"{folder}: expected a decoder tied to the word embeddings, found tie_word_embeddings = false.",
            hint="palbert pretrains encoders whose output words are their input words.",
        )
    options = {option: settings[key] for option, key in family.masked_settings.items() if settings.get(key) is not None}
    head = MaskedHead(encoder.config, **{**family.masked_options, **options})
    state = _head_state(encoder.config.family, read_weights(folder), head, where=str(folder))
    if state is None:
        log.info("%s has no masked-word head: a new one is trained", folder)
    else:
        head.load_state_dict(state)
    return MaskedModel(encoder, head)


def save_masked(model: MaskedModel, folder: Path, *, source: Path) -> None:
    """Write an encoder with its head as a folder that `load_encoder`, `load_masked` and transformers can load."""
    names = _head_names(model.encoder.config.family, model.head)
    head = {names[ours]: tensor for ours, tensor in model.head.state_dict().items()}
    save_folder(folder, {**export(model.encoder), **head}, source=source)


def _head_names(family: str, head: MaskedHead) -> dict[str, str]:
    """Return the checkpoint's name for each parameter of a head."""
    theirs = FAMILIES[family].masked_head
    names = {}
    for ours in head.state_dict():
        module, dot, last = ours.rpartition(".")
        names[ours] = f"{theirs[module]}.{last}" if dot else theirs[last]
    return names


def _head_state(
    family: str, weights: Mapping[str, Tensor], head: MaskedHead, *, where: str
) -> dict[str, Tensor] | None:
    """Return the state of a checkpoint's head, or None if it has none."""
    outer = prefix_in(FAMILIES[family], weights, where=where).removesuffix(FAMILIES[family].prefix)
    found = {current_name(name.removeprefix(outer)): tensor for name, tensor in weights.items()}
    names, state = _head_names(family, head), head.state_dict()
    missing = [name for name in names.values() if name not in found]
    if len(missing) == len(names):
        return None
    differing = [
        f"{name} is {tuple(found[name].shape)} and not {tuple(state[ours].shape)}"
        for ours, name in names.items()
        if name in found and found[name].shape != state[ours].shape
    ]
    if missing or differing:
        found_instead = "; ".join([f"missing: {', '.join(missing)}"] * bool(missing) + differing)
        raise EncoderError(f"{where}: expected the masked-word head of a {family} checkpoint. {found_instead}.")
    return {ours: found[name].float() for ours, name in names.items()}
