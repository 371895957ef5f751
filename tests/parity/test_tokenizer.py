"""Tokenizers of encoder folders compared with those of transformers: the same ids, or a refusal."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from palbert.data.tokenizer import TextTokenizer

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZàéîõüßçÀÉøØñ0123456789.,!?'-$"
OTHERS = "漢字日本語のテキスト中文한국어العربيةКириллица"
OTHERS += "\u0301\u0308\u200b\u200d\ufeff\ufffd\x00\x07\t\n\r\x1c\x85\u2028🎉👩İıſﬁ½"
BERT_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
MPNET_TOKENS = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]
CONFIGS = {"model_type": "bert", "hidden_size": 32, "num_attention_heads": 4}


def texts(seed: int, number: int = 1000) -> list[str]:
    """Make texts of accents, several scripts, emoji, control characters, special tokens and long words."""
    generator = random.Random(seed)
    pieces = [
        lambda: "".join(generator.choices(ALPHABET, k=generator.randint(1, 9))),
        lambda: "".join(generator.choices(OTHERS, k=generator.randint(1, 4))),
        lambda: "".join(generator.choices(ALPHABET + OTHERS, k=generator.randint(1, 20))),
        lambda: generator.choice([*BERT_TOKENS, *MPNET_TOKENS, "[unused1]", "<user>", "[cls]", "naïve", "Ünïcode"]),
        lambda: generator.choice(ALPHABET) * generator.choice([99, 100, 101, 300]),
    ]
    weights = [10, 5, 5, 3, 1]
    joined = (
        generator.choice([" ", "", "  ", "\u3000", "\xa0"]).join(
            make() for make in generator.choices(pieces, weights, k=generator.randint(0, 8))
        )
        for _ in range(number)
    )
    return list(joined)


def vocabulary(special: list[str]) -> list[str]:
    """Return special tokens, characters that may begin or continue a word, and some pieces of words."""
    characters = list(dict.fromkeys(ALPHABET + OTHERS.replace("ス", "")))
    characters = [each for each in characters if each.strip() == each and each.isprintable()]
    pieces = ["ab", "the", "##ing", "##er", "Ü", "na", "##ive", "##ïve", "aa", "##aa", "<user>", "漢字"]
    return [*special, "[unused1]", *characters, *(f"##{each}" for each in characters), *pieces]


def write(folder: Path, settings: dict[str, Any] | None, *, model_type: str = "bert", tokens: list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**CONFIGS, "model_type": model_type}))
    (folder / "vocab.txt").write_text("\n".join(vocabulary(tokens)), "utf-8")
    if settings is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def assert_same(folder: Path, seed: int = 1) -> None:
    """Compare the ids of a thousand texts, and the special tokens around some pairs."""
    transformers.logging.set_verbosity_error()
    ours, theirs = TextTokenizer.from_folder(folder), transformers.AutoTokenizer.from_pretrained(folder)
    rows = texts(seed)
    expected = theirs(rows, add_special_tokens=False)["input_ids"]
    found = ours(rows)
    differing = [text for number, text in enumerate(rows) if found[number].tolist() != expected[number]]
    assert not differing, differing[:3]
    template = ours.template
    for first, second in zip(["a", "Ab c"], ["b", "x y"], strict=True):
        one, two = (ours([text])[0].tolist() for text in (first, second))
        pair = theirs(first, second, return_token_type_ids=True)
        parts = [template.before.tolist(), one, template.between.tolist(), two, template.after.tolist()]
        assert pair["input_ids"] == list(itertools.chain(*parts))
        types = [kind for kind, part in zip(template.types, parts, strict=True) for _ in part]
        assert pair["token_type_ids"] == types


SETTINGS: dict[str, dict[str, Any] | None] = {
    "nothing": None,
    "empty": {},
    "cased": {"do_lower_case": False},
    "cased without accents": {"do_lower_case": False, "strip_accents": True},
    "lowercase with accents": {"strip_accents": False},
    "no Chinese characters": {"tokenize_chinese_chars": False},
    "all three": {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False},
    "written by Python": {"do_basic_tokenize": True, "never_split": None, "tokenizer_class": "BertTokenizer"},
    "never split special tokens": {"never_split": ["[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"]},
    "class with Fast": {"tokenizer_class": "DistilBertTokenizerFast", "do_lower_case": False},
    "another unknown token": {"unk_token": "[unused1]"},
    "another separator": {"sep_token": "[PAD]", "cls_token": "[MASK]", "mask_token": "[CLS]"},
    "no mask token": {"mask_token": None, "pad_token": None},
    "tokens with flags": {
        "mask_token": {"__type": "AddedToken", "content": "[MASK]", "lstrip": True, "rstrip": False,
                       "single_word": False, "normalized": True}
    },
    "a token that is not in the vocabulary": {"mask_token": "<mask>", "additional_special_tokens": ["[cls]", "naïve"]},
    "further tokens": {"extra_special_tokens": ["<user>", "<new>"], "eos_token": "[SEP]", "query_token": "<s>"},
    "added tokens": {
        "added_tokens_decoder": {
            "2": {"content": "[CLS]", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                  "special": True},
            "5": {"content": "[unused1]", "lstrip": True, "normalized": False, "rstrip": True, "single_word": False,
                  "special": False},
        }
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_a_vocabulary_with_settings_equals_transformers(name: str, tmp_path: Path) -> None:
    assert_same(write(tmp_path, SETTINGS[name], tokens=BERT_TOKENS))


@pytest.mark.parametrize("model_type", ["distilbert", "electra"])
def test_relatives_of_bert_equal_transformers(model_type: str, tmp_path: Path) -> None:
    assert_same(write(tmp_path, {"do_lower_case": False}, model_type=model_type, tokens=BERT_TOKENS))


@pytest.mark.parametrize(
    "settings",
    [None, {"do_lower_case": False}, {"strip_accents": False, "tokenize_chinese_chars": False}, {"unk_token": "<pad>"},
     {"tokenizer_class": "MPNetTokenizer", "bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>"},
     {"tokenizer_class": "MPNetTokenizer",
      "mask_token": {"__type": "AddedToken", "content": "<mask>", "lstrip": False, "rstrip": False,
                     "single_word": False, "normalized": True}}],
)  # fmt: skip
def test_mpnet_without_tokenizer_json_equals_transformers(settings: dict[str, Any] | None, tmp_path: Path) -> None:
    folder = write(tmp_path, settings, model_type="mpnet", tokens=MPNET_TOKENS)
    assert_same(folder)
    assert TextTokenizer.from_folder(folder).template.types == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("special_tokens_map.json", {"unk_token": "[unused1]", "mask_token": "<user>"}),
        ("special_tokens_map.json", {"mask_token": {"content": "[MASK]", "lstrip": True, "rstrip": False,
                                                    "single_word": False, "normalized": False}}),
        ("added_tokens.json", {"[unused1]": 5, "<user>": 0}),
    ],
)  # fmt: skip
def test_older_files_of_tokens_equal_transformers(name: str, content: dict[str, Any], tmp_path: Path) -> None:
    folder = write(tmp_path, {"do_lower_case": False}, tokens=BERT_TOKENS)
    if name == "added_tokens.json":
        lines = (folder / "vocab.txt").read_text("utf-8").split("\n")
        content = {token: lines.index(token) for token in content}
    (folder / name).write_text(json.dumps(content))
    assert_same(folder)


def write_json(folder: Path, *, lowercase: bool) -> Path:
    """Add the tokenizer.json of a folder's vocabulary, with one setting."""
    lines = (folder / "vocab.txt").read_text("utf-8").split("\n")
    tokenizer = Tokenizer(models.WordPiece({token: number for number, token in enumerate(lines)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.add_special_tokens(BERT_TOKENS)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "vocab.txt").unlink()
    return folder


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("name", [name for name, value in SETTINGS.items() if value is not None
                                  and not {"unk_token", "sep_token"} & value.keys()])  # fmt: skip
def test_settings_that_contradict_tokenizer_json_win_as_in_transformers(
    name: str, lowercase: bool, tmp_path: Path
) -> None:
    assert_same(write_json(write(tmp_path, SETTINGS[name], tokens=BERT_TOKENS), lowercase=lowercase))


@pytest.mark.parametrize("space", [False, True])
@pytest.mark.parametrize("stored", [False, True])
def test_the_space_before_a_text_is_that_of_transformers(space: bool, stored: bool, tmp_path: Path) -> None:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", "<mask>", *letters])}
    tokenizer = Tokenizer(models.BPE(vocabulary | {"Ġa": len(vocabulary)}, [("Ġ", "a")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=stored)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, stored)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "roberta"}))
    settings = {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": space}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    ours, theirs = TextTokenizer.from_folder(tmp_path), transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in ("a", "aa", " a", "b a"):
        assert ours([text])[0].tolist() == theirs(text, add_special_tokens=False)["input_ids"], text
