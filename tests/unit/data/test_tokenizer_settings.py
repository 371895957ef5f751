"""TokenizerSettings: which of a folder's files says what about its tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palbert.data.tokenizer_settings import TokenizerSettings, read_tokenizer_settings


def read(folder: Path, **files: Any) -> TokenizerSettings:
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return read_tokenizer_settings(folder)


def test_an_empty_folder_has_no_settings(tmp_path: Path) -> None:
    settings = read(tmp_path)
    assert (settings.values, settings.class_name, settings.model_type) == ({}, "", "")
    assert (settings.special, settings.added) == ({}, {})


def test_the_class_of_the_tokenizer_is_preferred_to_that_of_the_model(tmp_path: Path) -> None:
    config = {"model_type": "bert", "tokenizer_class": "BertTokenizer"}
    assert read(tmp_path, config=config).class_name == "BertTokenizer"
    settings = read(tmp_path, tokenizer_config={"tokenizer_class": "MPNetTokenizerFast"})
    assert (settings.class_name, settings.model_type) == ("MPNetTokenizer", "bert")


def test_older_files_count_only_without_added_tokens_in_the_newer_one(tmp_path: Path) -> None:
    older = {"special_tokens_map": {"unk_token": "<u>"}, "added_tokens": {"<x>": 7}}
    settings = read(tmp_path, tokenizer_config={"unk_token": "[UNK]"}, **older)
    assert settings.special["unk_token"].content == "<u>"
    assert settings.added[7].content == "<x>"
    newer = {"unk_token": "[UNK]", "added_tokens_decoder": {"9": {"content": "<y>", "special": True}}}
    settings = read(tmp_path, tokenizer_config=newer)
    assert settings.special["unk_token"].content == "[UNK]"
    assert {number: token.content for number, token in settings.added.items()} == {9: "<y>"}
    assert settings.added[9].special


def test_special_tokens_have_roles_or_are_extra(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        tokenizer_config={"mask_token": {"content": "<m>", "lstrip": True}, "user_token": "<u>", "pad_token": None,
                          "additional_special_tokens": ["<e>"]},
    )  # fmt: skip
    assert {role: token.content for role, token in settings.special.items()} == {
        "mask_token": "<m>", "user_token": "<u>", "extra 0": "<e>"
    }  # fmt: skip
    assert settings.special["mask_token"].lstrip
    assert all(token.special and not token.normalized for token in settings.special.values())
