"""The masked-word head compared with transformers: loss, gradients, and folders that both load, for every family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from palbert.batch import PackedBatch, Part
from palbert.model.masked import MaskedModel, load_masked, save_masked
from palbert.model.pretrained import load_encoder
from palbert.objectives.mlm import MLM, Masking

TOLERANCE = 1e-5
"""Of the largest reference value."""
SHAPE = {
    "vocab_size": 99,
    "hidden_size": 36,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 60,
    "max_position_embeddings": 66,
    "initializer_range": 0.2,
}
DISTILBERT = {"vocab_size": 99, "dim": 36, "n_layers": 2, "n_heads": 4, "hidden_dim": 60, "initializer_range": 0.2}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", {**SHAPE, "hidden_act": "relu"}),
    "roberta": ("Roberta", {**SHAPE, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "hidden_act": "relu"}),
    "xlm-roberta": ("XLMRoberta", {**SHAPE, "type_vocab_size": 1}),
    "camembert": ("Camembert", {**SHAPE, "type_vocab_size": 1}),
    "distilbert": ("DistilBert", {**DISTILBERT, "activation": "relu"}),
    "electra": ("Electra", {**SHAPE, "embedding_size": 20, "hidden_act": "relu"}),
    "electra without projection": ("Electra", {**SHAPE, "embedding_size": 36}),
    "mpnet": ("MPNet", {**SHAPE, "hidden_act": "relu"}),
    "modernbert": ("ModernBert", {**SHAPE, "hidden_size": 40, "local_attention": 8, "pad_token_id": 0}),
    "modernbert with other biases": (
        "ModernBert",
        {
            **SHAPE,
            "hidden_size": 40,
            "pad_token_id": 0,
            "classifier_bias": True,
            "classifier_activation": "silu",
            "norm_bias": True,
        },
    ),
}
LENGTHS = [7, 23, 2, 60]
FIRST_ID, MASK = 5, 4
"""Ids below the first are special; a padding id in the text would be padding to transformers."""


@pytest.fixture(autouse=True)
def quiet_and_seeded() -> None:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(1)


def save_random(folder: Path, family: str, kind: str) -> Path:
    """Save a model with random weights, those that would start at 0 or 1 included."""
    name, settings = FAMILIES[family]
    model = getattr(transformers, f"{name}{kind}")(getattr(transformers, f"{name}Config")(**settings))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    return folder


def packed() -> PackedBatch:
    tokens = sum(LENGTHS)
    return PackedBatch(
        ids=torch.randint(FIRST_ID, 99, (tokens,)),
        positions=torch.cat([torch.arange(length) for length in LENGTHS]),
        types=torch.zeros(tokens, dtype=torch.int64),
        starts=torch.tensor([0, *LENGTHS]).cumsum(0).int(),
        max_length=max(LENGTHS),
        parts={"mlm": Part("mlm", slice(0, len(LENGTHS)), slice(0, tokens))},
    )


def padded(values: Tensor, filling: int) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(values.split(LENGTHS), batch_first=True, padding_value=filling)


def reference_loss(model: Any, ids: Tensor, labels: Tensor) -> Tensor:
    """Return transformers' own masked-language-model loss; labels of -100 are not asked for."""
    mask = padded(torch.ones_like(ids), 0)
    inputs = {"input_ids": padded(ids, model.config.pad_token_id), "attention_mask": mask}
    loss: Tensor = model(**inputs, labels=padded(labels, -100)).loss
    return loss


def load_reference(folder: Path, kind: str = "AutoModelForMaskedLM") -> Any:
    return getattr(transformers, kind).from_pretrained(folder, attn_implementation="eager").eval()


def objective_of(model: MaskedModel) -> MLM:
    size = model.encoder.config.vocabulary_size
    return MLM(Masking(share=0.3, mask_id=MASK, ordinary_ids=range(FIRST_ID, size), vocabulary_size=size))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_loss_and_its_gradients_equal_transformers(family: str, tmp_path: Path) -> None:
    save_random(tmp_path, family, "ForMaskedLM")
    model, reference, batch = load_masked(tmp_path).eval(), load_reference(tmp_path), packed()
    objective = objective_of(model)
    state = torch.get_rng_state()
    masked = objective.masking(batch)
    torch.set_rng_state(state)
    loss = objective(model, batch)["mlm"]
    labels = torch.full_like(batch.ids, -100).index_copy(0, masked.places, masked.labels)
    expected = reference_loss(reference, masked.batch.ids, labels)
    assert abs(loss.item() - expected.item()) <= TOLERANCE * expected.item()

    loss.backward()
    expected.backward()
    for ours, theirs in [
        (model.encoder.embeddings.word.weight, reference.get_input_embeddings().weight),
        (model.head.bias, reference.get_output_embeddings().bias),
    ]:
        assert ours.grad is not None
        assert (ours.grad - theirs.grad).abs().max() <= TOLERANCE * theirs.grad.abs().max()


@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_loads_the_saved_model(family: str, tmp_path: Path) -> None:
    source, target = save_random(tmp_path / "source", family, "ForMaskedLM"), tmp_path / "target"
    model = load_masked(source).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    target.mkdir()
    save_masked(model, target, source=source)
    batch = packed()
    places = torch.arange(batch.tokens)
    loaded = load_reference(target)
    ids, mask = padded(batch.ids, loaded.config.pad_token_id), padded(torch.ones_like(batch.ids), 0)
    with torch.no_grad():
        expected = loaded(input_ids=ids, attention_mask=mask).logits[mask.bool()]
        assert (model(batch, places) - expected).abs().max() <= TOLERANCE * expected.abs().max()
        assert torch.equal(load_masked(target).eval()(batch, places), model(batch, places))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_bare_encoder_saved_with_a_new_head_is_the_same_encoder(family: str, tmp_path: Path) -> None:
    source, target = save_random(tmp_path / "source", family, "Model"), tmp_path / "target"
    model = load_masked(source)
    target.mkdir()
    save_masked(model, target, source=source)
    one, other = load_reference(source, "AutoModel"), load_reference(target, "AutoModel")
    assert one.state_dict().keys() == other.state_dict().keys()
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name
    assert load_encoder(target).config == load_encoder(source).config
