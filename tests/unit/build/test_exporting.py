"""Exporting: the pooling of a folder, its settings, and adapters as updates of weights."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from palbert.build.exporting import common_pooling, write_encoder, write_sentence_modules
from palbert.data.tokenizer import TextTokenizer
from palbert.errors import PalbertError
from palbert.model.adapters.lora import LoRA
from palbert.model.adapters.pal import PAL
from palbert.model.pretrained import load_encoder
from palbert.recipe.load import make_recipe


@pytest.mark.parametrize(
    ("poolings", "exported"),
    [(["cls", "cls"], "cls"), (["mean", "mean"], "mean"), (["attention", "attention"], "mean")],
)
def test_the_pooling_of_all_tasks_is_exported_if_others_have_it(
    poolings: list[str], exported: str, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = {name: {"pooling": pooling} for name, pooling in zip(("sst", "quora"), poolings, strict=True)}
    assert common_pooling(make_recipe({"data": "samples", "tasks": tasks}).tasks.values()) == exported
    assert ("cannot all be exported" in caplog.text) == (poolings[0] != exported)


def test_different_poolings_become_the_mean_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    recipe = make_recipe({"data": "samples", "tasks": {"sst": {"pooling": "mean"}, "quora": {"pooling": "cls"}}})
    assert common_pooling(recipe.tasks.values()) == "mean" and "cls, mean" in caplog.text
    assert common_pooling([]) == "mean"


def test_the_written_folder_says_what_libraries_need(
    tiny_encoder: Path, tokenizer: TextTokenizer, tmp_path: Path
) -> None:
    write_encoder(tmp_path, load_encoder(tiny_encoder), tokenizer, max_length=40)
    write_sentence_modules(tmp_path, hidden_size=32, max_length=40, pooling="cls")
    read = {path.name: json.loads(path.read_text("utf-8")) for path in tmp_path.glob("*.json")}
    assert read["config.json"]["architectures"] == ["BertModel"] and read["config.json"]["pad_token_id"] == 0
    settings = read["tokenizer_config.json"]
    assert settings["model_max_length"] == read["sentence_bert_config.json"]["max_seq_length"] == 40
    assert (settings["pad_token"], settings["mask_token"]) == ("[PAD]", "[MASK]")
    assert settings["model_input_names"] == ["input_ids", "token_type_ids", "attention_mask"]
    pooling = json.loads((tmp_path / "1_Pooling" / "config.json").read_text("utf-8"))
    assert pooling["pooling_mode_cls_token"] and not pooling["pooling_mode_mean_tokens"]
    loaded, own = load_encoder(tmp_path), load_encoder(tiny_encoder)
    assert loaded.config == own.config
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in own.state_dict().items())


@pytest.mark.parametrize("family", ["nobody-has-it", "distilbert", "modernbert"])
def test_an_encoder_that_is_not_of_its_family_is_not_written(
    tiny_encoder: Path, tokenizer: TextTokenizer, tmp_path: Path, family: str
) -> None:
    encoder = load_encoder(tiny_encoder)
    encoder.config = replace(encoder.config, family=family)
    with pytest.raises(PalbertError):
        write_encoder(tmp_path, encoder, tokenizer, max_length=40)
    assert not list(tmp_path.iterdir())


def test_only_lora_is_an_update_of_weights() -> None:
    lora = LoRA(6, layers=2, rank=2, alpha=4.0, targets=["value", "query"])
    torch.nn.init.normal_(lora.b[1])
    update = lora.weight_update(1)
    assert update.shape == (18, 6) and torch.count_nonzero(update[6:12]) == 0  # the key is not adapted
    torch.testing.assert_close(update[12:], 2.0 * lora.b[1][1] @ lora.a[1][1])
    assert PAL(8, layers=1, size=4, heads=2).weight_update(0) is None
