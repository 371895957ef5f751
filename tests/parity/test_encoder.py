"""The packed encoder compared with transformers: outputs and gradients of every family."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from palbert.batch import PackedBatch
from palbert.model.encoder import Encoder
from palbert.model.families import checkpoint_names
from palbert.model.pretrained import MINILM_PACKAGE, load_encoder, resolve_encoder

TOLERANCE = 1e-5
"""Of the largest reference value."""
SHAPE = {
    "vocab_size": 99,
    "hidden_size": 36,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 60,
    "max_position_embeddings": 514,
    "initializer_range": 0.2,
}
MODERNBERT = {
    **SHAPE,
    "hidden_size": 40,
    "num_hidden_layers": 5,
    "max_position_embeddings": 512,
    "local_attention": 16,
    "pad_token_id": 0,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", {**SHAPE, "max_position_embeddings": 512}),
    "roberta": ("Roberta", {**SHAPE, "type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "xlm-roberta": ("XLMRoberta", {**SHAPE, "type_vocab_size": 1, "hidden_act": "gelu_new"}),
    "camembert": ("Camembert", {**SHAPE, "type_vocab_size": 1}),
    "distilbert": (
        "DistilBert",
        {
            "vocab_size": 99,
            "dim": 36,
            "n_layers": 3,
            "n_heads": 4,
            "hidden_dim": 60,
            "max_position_embeddings": 512,
            "initializer_range": 0.2,
        },
    ),
    "electra": ("Electra", {**SHAPE, "max_position_embeddings": 512, "embedding_size": 20, "hidden_act": "relu"}),
    "electra without projection": ("Electra", {**SHAPE, "max_position_embeddings": 512, "embedding_size": 36}),
    "mpnet": ("MPNet", SHAPE),
    "modernbert": ("ModernBert", MODERNBERT),
    "modernbert with biases and its own layers": (
        "ModernBert",
        {
            **MODERNBERT,
            "num_hidden_layers": 2,
            "layer_types": ["sliding_attention", "full_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 5000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 70.0},
            },
            "attention_bias": True,
            "mlp_bias": True,
            "norm_bias": True,
            "hidden_activation": "silu",
            "local_attention": 1000,
        },
    ),
}
LENGTHS = [7, 1, 140, 23, 23, 60]
FIRST_ID = 4
"""Ids below are special: a padding id in the text would be padding to transformers."""
KEY_BIASES = (".key.bias", ".k.bias", ".k_lin.bias", ".Wqkv.bias")


@pytest.fixture(autouse=True)
def quiet_and_seeded() -> None:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(1)


def save_random(folder: Path, family: str, **options: Any) -> Path:
    """Save a model with random weights, those that would start at 0 or 1 included."""
    name, settings = FAMILIES[family]
    config = getattr(transformers, f"{name}Config")(**settings)
    model = getattr(transformers, f"{name}Model")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder, **options)
    return folder


def load_both(folder: Path) -> tuple[Encoder, Any]:
    reference = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")
    return load_encoder(folder).eval(), reference.eval()


def pack(encoder: Encoder, lengths: list[int]) -> PackedBatch:
    return PackedBatch(
        ids=torch.randint(FIRST_ID, encoder.config.vocabulary_size, (sum(lengths),)),
        positions=torch.cat([torch.arange(length) for length in lengths]),
        types=torch.cat([torch.arange(length) > length // 2 for length in lengths]).long(),
        starts=torch.tensor([0, *lengths]).cumsum(0).int(),
        max_length=max(lengths),
    )


def run_reference(model: Any, batch: PackedBatch, *, embeddings: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    """Return transformers' hidden states of the real tokens, (tokens, hidden), and its pooled first tokens."""
    lengths = batch.starts.diff().tolist()
    mask = torch.arange(batch.max_length, device=batch.ids.device) < batch.starts.diff()[:, None]

    def pad(values: Tensor, filling: int = 0) -> Tensor:
        return torch.nn.utils.rnn.pad_sequence(values.split(lengths), batch_first=True, padding_value=filling)

    inputs: dict[str, Tensor] = {"attention_mask": mask.long()}
    if embeddings is None:
        inputs["input_ids"] = pad(batch.ids, model.config.pad_token_id)
    else:
        inputs["inputs_embeds"] = pad(embeddings)
    types = getattr(model.config, "type_vocab_size", 0)
    if types:
        inputs["token_type_ids"] = pad(batch.types.clamp(max=types - 1))
    result = model(**inputs)
    return result.last_hidden_state[mask], getattr(result, "pooler_output", None)


def difference(found: Tensor, expected: Tensor) -> float:
    return ((found - expected).abs().max() / expected.abs().max()).item()


def assert_same_outputs(encoder: Encoder, model: Any, batch: PackedBatch) -> None:
    with torch.no_grad():
        hidden = encoder(batch)
        expected, pooled = run_reference(model, batch)
        assert difference(hidden, expected) <= TOLERANCE
        assert (pooled is not None) == encoder.config.pooler
        if pooled is not None:
            assert difference(encoder.pool(hidden[batch.starts[:-1].long()]), pooled) <= TOLERANCE


def assert_same_gradients(encoder: Encoder, model: Any, batch: PackedBatch) -> None:
    hidden, (expected, pooled) = encoder(batch), run_reference(model, batch)
    weights = torch.randn_like(expected)
    loss, expected_loss = (hidden * weights).sum(), (expected * weights).sum()
    if pooled is not None:
        loss = loss + (encoder.pool(hidden[batch.starts[:-1].long()]) ** 2).sum()
        expected_loss = expected_loss + (pooled**2).sum()
    loss.backward()
    expected_loss.backward()
    references = {name: parameter.grad for name, parameter in model.named_parameters()}
    ours = dict(encoder.named_parameters())
    largest = max(gradient.abs().max() for gradient in references.values())
    for name, parts in checkpoint_names(encoder).items():
        gradient = ours[name].grad
        assert gradient is not None
        for part, found in zip(parts, gradient.chunk(len(parts)), strict=True):
            reference = references.pop(part)
            # A key's bias shifts all scores alike: its gradient is 0 except for rounding, and has no scale.
            scale = largest if part.endswith(KEY_BIASES) else reference.abs().max()
            assert (found - reference).abs().max() <= TOLERANCE * scale, part
    assert not references


@pytest.fixture(params=FAMILIES)
def both(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Encoder, Any]:
    return load_both(save_random(tmp_path, request.param))


def test_outputs_equal_transformers(both: tuple[Encoder, Any]) -> None:
    encoder, model = both
    assert_same_outputs(encoder, model, pack(encoder, LENGTHS))


def test_gradients_of_all_parameters_equal_transformers(both: tuple[Encoder, Any]) -> None:
    encoder, model = both
    assert_same_gradients(encoder, model, pack(encoder, LENGTHS))


@pytest.mark.parametrize("length", [1, 512])
def test_the_shortest_and_the_longest_sequence_equal_transformers(both: tuple[Encoder, Any], length: int) -> None:
    encoder, model = both
    assert encoder.config.max_length == 512
    assert_same_outputs(encoder, model, pack(encoder, [length]))


def test_embeddings_in_place_of_ids_equal_transformers(both: tuple[Encoder, Any]) -> None:
    encoder, model = both
    batch = pack(encoder, [9, 9])  # transformers takes no mask into account when it counts positions here
    embeddings = torch.randn(18, encoder.config.embedding_size)
    with torch.no_grad():
        expected, _ = run_reference(model, batch, embeddings=embeddings)
        assert difference(encoder(batch, embeddings=embeddings), expected) <= TOLERANCE


def test_a_mixed_batch_equals_transformers_one_by_one(both: tuple[Encoder, Any]) -> None:
    encoder, model = both
    batch = pack(encoder, LENGTHS)
    columns = [column.split(LENGTHS) for column in (batch.ids, batch.positions, batch.types)]
    with torch.no_grad():
        together = encoder(batch).split(LENGTHS)
        for found, ids, positions, types in zip(together, *columns, strict=True):
            starts = torch.tensor([0, len(ids)], dtype=torch.int32)
            alone = PackedBatch(ids=ids, positions=positions, types=types, starts=starts, max_length=len(ids))
            expected, _ = run_reference(model, alone)
            assert difference(found, expected) <= TOLERANCE


@pytest.mark.parametrize("family", ["bert", "distilbert", "mpnet"])
def test_sharded_and_pickled_weights_load_like_a_single_file(tmp_path: Path, family: str) -> None:
    single = load_encoder(save_random(tmp_path / "single", family))
    model = transformers.AutoModel.from_pretrained(tmp_path / "single")
    model.save_pretrained(tmp_path / "sharded", max_shard_size="20KB")
    assert len(list((tmp_path / "sharded").glob("model-*.safetensors"))) > 1
    (tmp_path / "pickled").mkdir()
    model.config.save_pretrained(tmp_path / "pickled")
    torch.save(model.state_dict(), tmp_path / "pickled" / "pytorch_model.bin")
    for folder in ("sharded", "pickled"):
        other = load_encoder(tmp_path / folder)
        assert other.config == single.config
        for name, tensor in single.state_dict().items():
            assert torch.equal(other.state_dict()[name], tensor)


HEADS = [
    ("bert", "BertForPreTraining"),
    ("bert", "BertForMaskedLM"),
    ("roberta", "RobertaForMaskedLM"),
    ("roberta", "RobertaForSequenceClassification"),
    ("camembert", "CamembertForMaskedLM"),
    ("distilbert", "DistilBertForMaskedLM"),
    ("distilbert", "DistilBertForSequenceClassification"),
    ("electra", "ElectraForPreTraining"),
    ("electra", "ElectraForMaskedLM"),
    ("mpnet", "MPNetForMaskedLM"),
    ("bert", "BertForQuestionAnswering"),
    ("modernbert", "ModernBertForMaskedLM"),
    ("modernbert", "ModernBertForSequenceClassification"),
]


@pytest.mark.parametrize(("family", "name"), HEADS, ids=[name for _, name in HEADS])
def test_a_checkpoint_with_a_head_gives_its_encoder(tmp_path: Path, family: str, name: str) -> None:
    config_name, settings = FAMILIES[family]
    model = getattr(transformers, name)(getattr(transformers, f"{config_name}Config")(**settings)).eval()
    model.save_pretrained(tmp_path)
    encoder = load_encoder(tmp_path).eval()
    batch = pack(encoder, [5, 9])
    with torch.no_grad():
        expected, _ = run_reference(model.base_model, batch)
        assert difference(encoder(batch), expected) <= TOLERANCE


@pytest.fixture
def minilm() -> tuple[Encoder, Any]:
    try:
        importlib.metadata.distribution(MINILM_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"the package {MINILM_PACKAGE} is not installed")
    return load_both(resolve_encoder("minilm"))


def test_minilm_equals_transformers(minilm: tuple[Encoder, Any]) -> None:
    encoder, model = minilm
    batch = pack(encoder, [12, 1, 33, 7])
    assert_same_outputs(encoder, model, batch)
    assert_same_gradients(encoder, model, batch)


def hidden_and_gradients(encoder: Any, hidden: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """Return hidden states and the gradients of a weighted sum of them, by parameter name, float32 on the CPU."""
    (hidden * weights.to(hidden)).sum().backward()
    gradients = {name: value.grad for name, value in encoder.named_parameters() if value.grad is not None}
    found = {name: value.detach().float().cpu() for name, value in {"hidden": hidden, **gradients}.items()}
    encoder.zero_grad()
    return found


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_gpu_comes_as_close_to_float32_as_transformers_does(both: tuple[Encoder, Any], dtype: torch.dtype) -> None:
    encoder, model = both
    batch = pack(encoder, LENGTHS)
    hidden, _ = run_reference(model, batch)
    weights = torch.randn_like(hidden)
    exact = hidden_and_gradients(model, hidden, weights)

    encoder, model, batch = encoder.to("cuda", dtype), model.to("cuda", dtype), batch.to("cuda")
    theirs = hidden_and_gradients(model, run_reference(model, batch)[0], weights)
    unused = replace(batch, starts=torch.cat([batch.starts, batch.starts[-1:]]))  # the end of a filled-up batch
    ours = hidden_and_gradients(encoder, encoder(unused), weights)
    parts = {"hidden": ("hidden",), **checkpoint_names(encoder)}
    distances = []
    for name, found in ours.items():
        if not name.endswith("query_key_value.bias"):  # a third of its gradient is 0 except for rounding
            expected, other = (torch.cat([values[part] for part in parts[name]]) for values in (exact, theirs))
            distances.append([(each - expected).norm() / expected.norm() for each in (found, other)])
    # Over all tensors: where rounding turns a sign before ReLU, a single gradient may be far off on either side.
    distance, other_distance = torch.tensor(distances).mean(0)
    assert distance <= 1.5 * other_distance + torch.finfo(dtype).eps
