"""Tokenizer files: what cannot be read as transformers reads it is refused; tests/parity compares the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from palbert.data.tokenizer import TextTokenizer
from palbert.errors import EncoderError

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]


def write(folder: Path, settings: dict[str, Any], *, model_type: str | None = None) -> Path:
    (folder / "vocab.txt").write_text("\n".join(WORDS), "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    if model_type is not None:
        (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    return folder


def write_json(folder: Path, settings: dict[str, Any], *, normalizer: Any = None, unknown: str = "[UNK]") -> Path:
    write(folder, settings, model_type="bert")
    tokenizer = Tokenizer(models.WordPiece({word: place for place, word in enumerate(WORDS)}, unk_token=unknown))
    tokenizer.normalizer = normalizer or normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.mark.parametrize(
    "settings",
    [
        {"word_tokenizer_type": "mecab"},
        {"subword_tokenizer_type": "character"},
        {"word_tokenizer_type": "sudachi", "tokenizer_class": "BertTokenizer"},
        {"tokenizer_class": "BertJapaneseTokenizer"},
        {"tokenizer_class": "PhobertTokenizer"},
    ],
)
@pytest.mark.parametrize("with_json", [False, True])
def test_tokenizers_that_are_programs_are_refused(settings: dict[str, Any], with_json: bool, tmp_path: Path) -> None:
    write_json(tmp_path, settings) if with_json else write(tmp_path, settings)
    with pytest.raises(EncoderError, match="needs a program of its own to find words") as caught:
        TextTokenizer.from_folder(tmp_path)
    assert "tokenizer.json describes completely" in str(caught.value)


def test_the_class_in_config_json_counts_as_well(tmp_path: Path) -> None:
    write(tmp_path, {})
    (tmp_path / "config.json").write_text('{"model_type": "bert", "tokenizer_class": "BertJapaneseTokenizer"}')
    with pytest.raises(EncoderError, match="BertJapaneseTokenizer"):
        TextTokenizer.from_folder(tmp_path)


@pytest.mark.parametrize("model_type", ["roberta", "modernbert", "xlm-roberta", "other"])
def test_a_vocabulary_of_another_family_is_refused(model_type: str, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=f"vocab.txt alone does not describe the tokenizer of {model_type}"):
        TextTokenizer.from_folder(write(tmp_path, {}, model_type=model_type))


def test_a_vocabulary_of_an_unknown_class_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"does not describe FancyTokenizer.*save_pretrained"):
        TextTokenizer.from_folder(write(tmp_path, {"tokenizer_class": "FancyTokenizerFast"}, model_type="bert"))


@pytest.mark.parametrize("settings", [{"do_basic_tokenize": False}, {"never_split": ["New York"]}])
def test_settings_of_the_tokenizer_in_python_are_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"only to tokenizers in Python.*save_pretrained"):
        TextTokenizer.from_folder(write(tmp_path, settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"do_lower_case": "no"}, "do_lower_case: expected true or false, found 'no'"),
        ({"strip_accents": 1}, "strip_accents: expected true or false, found 1"),
        ({"cls_token": 5}, "cls_token: expected a token, found 5"),
        ({"mask_token": {"content": "x", "lstrip": "yes"}}, "mask_token: expected a token"),
        ({"sep_token": None}, "no line None, which is the sep_token"),
        ({"unk_token": "[OOV]"}, r"no line '\[OOV\]', which is the unk_token"),
        ({"additional_special_tokens": "<a>"}, "expected a list of further special tokens"),
        ({"added_tokens_decoder": [1]}, "added_tokens_decoder: expected a table"),
        ({"added_tokens_decoder": {"x": {"content": "a"}}}, "expected the id of an added token, found 'x'"),
        ({"added_tokens_decoder": {"9": {"content": "a"}}}, "'a' has the id 9, and in the vocabulary 5"),
        ({"split_special_tokens": True}, "split_special_tokens is not supported"),
    ],
)
def test_a_setting_that_cannot_be_read_is_named(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=message) as caught:
        TextTokenizer.from_folder(write(tmp_path, settings))
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"do_lower_case": False}, "tokenizer.json and tokenizer_config.json disagree.*do_lower_case = False"),
        ({"cls_token": "[MASK]"}, r"cls_token is '\[MASK\]', and in tokenizer.json it is '\[CLS\]'"),
        ({"sep_token": "b"}, r"sep_token is 'b', and in tokenizer.json it is '\[SEP\]'"),
        ({"unk_token": "[PAD]"}, r"unk_token is '\[PAD\]', and in tokenizer.json it is '\[UNK\]'"),
    ],
)
def test_files_that_disagree_are_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=message):
        TextTokenizer.from_folder(write_json(tmp_path, settings))


def test_stored_padding_and_truncation_do_not_hide_the_special_tokens(tmp_path: Path) -> None:
    write_json(tmp_path, {"cls_token": "[CLS]", "sep_token": "[SEP]"})
    stored = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    stored.enable_padding(length=8)
    stored.enable_truncation(3)
    stored.save(str(tmp_path / "tokenizer.json"))
    assert TextTokenizer.from_folder(tmp_path)(["a b a b"])[0].tolist() == [5, 6, 5, 6]


def test_tokenizer_json_alone_is_read_as_it_is(tmp_path: Path) -> None:
    write_json(tmp_path, {}, normalizer=normalizers.BertNormalizer(lowercase=False))
    (tmp_path / "tokenizer_config.json").unlink()
    assert TextTokenizer.from_folder(tmp_path)(["A a"])[0].tolist() == [1, 5]


def test_a_class_of_the_tokenizers_library_leaves_tokenizer_json_as_it_is(tmp_path: Path) -> None:
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": True}
    write_json(tmp_path, settings, normalizer=normalizers.BertNormalizer(lowercase=False))
    assert TextTokenizer.from_folder(tmp_path)(["A a"])[0].tolist() == [1, 5]


def test_a_changed_normalizer_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_json(tmp_path, {"do_lower_case": True}, normalizer=normalizers.BertNormalizer(lowercase=False))
    assert TextTokenizer.from_folder(tmp_path)(["A a"])[0].tolist() == [5, 5]
    assert "changes the normalizer of tokenizer.json" in caplog.text


def test_a_tokenizer_that_fails_on_unknown_words_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path, {}, unknown="[NONE]")
    with pytest.raises(EncoderError, match="the tokenizer cannot be read"):
        TextTokenizer.from_folder(tmp_path)
