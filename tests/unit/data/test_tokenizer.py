"""TextTokenizer: the ids of the tokenizers library, and each family's own special tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from palbert.data.tokenizer import TextTokenizer
from palbert.errors import DataError, EncoderError

VOCABULARY = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "a": 4, "b": 5, "##b": 6}


def words(post_processor: Any = None) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if post_processor is not None:
        tokenizer.post_processor = post_processor
    return tokenizer


def test_bert_puts_one_separator_between_texts_and_types_the_second() -> None:
    template = TextTokenizer(words(processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)))).template
    assert (template.before.tolist(), template.between.tolist(), template.after.tolist()) == ([2], [3], [3])
    assert template.types == (0, 0, 0, 1, 1)
    assert (template.single, template.pair) == (2, 3)


def test_roberta_puts_two_separators_between_texts_and_has_no_types() -> None:
    template = TextTokenizer(words(processors.RobertaProcessing(("[SEP]", 3), ("[CLS]", 2)))).template
    assert (template.before.tolist(), template.between.tolist(), template.after.tolist()) == ([2], [3, 3], [3])
    assert template.types == (0, 0, 0, 0, 0)
    assert (template.single, template.pair) == (2, 4)


def test_a_tokenizer_without_special_tokens_is_refused() -> None:
    with pytest.raises(EncoderError, match=r"^The tokenizer puts no special tokens"):
        TextTokenizer(words())


def test_what_a_tokenizer_of_a_folder_lacks_is_said_with_the_folder(tmp_path: Path) -> None:
    words().save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(EncoderError, match=rf"^{tmp_path}: the tokenizer puts no special tokens"):
        TextTokenizer.from_folder(tmp_path)
    words(processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(EncoderError, match=rf"^{tmp_path}: the tokenizer has no mask token"):
        TextTokenizer.from_folder(tmp_path).mask_id()


def test_saved_truncation_and_padding_are_switched_off() -> None:
    raw = words(processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)))
    raw.enable_truncation(4)
    raw.enable_padding(length=10)
    assert TextTokenizer(raw)(["a b a b a b", "a"]).lengths.tolist() == [6, 1]


@pytest.mark.parametrize("texts", [[], [""], ["a b", "", "a 🎉"], ["a"] * 9000], ids=len)
def test_every_text_gives_a_row_without_special_tokens(texts: list[str]) -> None:
    tokenizer = TextTokenizer(words(processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))))
    rows = tokenizer(texts)
    assert len(rows) == len(texts)
    for row in range(0, len(texts), 1000):
        assert rows[row].tolist() == tokenizer.tokenizer.encode(texts[row], add_special_tokens=False).ids


def test_a_saved_tokenizer_loads_unchanged(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    assert TextTokenizer.from_folder(tmp_path).sha256 == tokenizer.sha256


@pytest.mark.parametrize(("settings", "expected"), [({}, 4), ({"do_lower_case": False}, 1)])
def test_a_vocabulary_alone_gives_the_tokenizer_of_bert(
    tmp_path: Path, settings: dict[str, bool], expected: int
) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = TextTokenizer.from_folder(tmp_path)
    assert tokenizer(["A", "ab"])[0].tolist() == [expected]
    assert tokenizer(["ab"])[0].tolist() == [4, 6]
    assert tokenizer.template.pair == 3


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"no tokenizer\.json and no vocab\.txt"):
        TextTokenizer.from_folder(tmp_path)


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer.json": "{broken"},
        {"tokenizer.json": '{"version": "1.0"}'},
        {"tokenizer.json": '{"model": {"type": "WordPiece", "vocab": {"a": 1000000000000}}}'},
    ],
)
def test_a_damaged_tokenizer_is_refused_with_its_folder(files: dict[str, str], tmp_path: Path) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(EncoderError, match=r"the tokenizer cannot be read: .*Save it again"):
        TextTokenizer.from_folder(tmp_path)


def test_a_tokenizer_whose_layout_names_an_unknown_token_is_refused(tmp_path: Path) -> None:
    raw = words(processors.TemplateProcessing(single="[CLS] $A", pair="[CLS] $A $B", special_tokens=[("[CLS]", 2)]))
    content = json.loads(raw.to_str())
    content["post_processor"]["pair"][0]["SpecialToken"]["id"] = (
        "[UNHEARD]"  # the library panics when it encodes a pair
    )
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), "utf-8")
    with pytest.raises(EncoderError, match=r"the tokenizer cannot be read: .*Save it again"):
        TextTokenizer.from_folder(tmp_path)


def test_the_rows_of_a_tokenizer_end_with_its_largest_id() -> None:
    raw = words(processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)))
    assert TextTokenizer(raw).rows == 7
    raw.add_tokens(["new"])
    assert TextTokenizer(raw).rows == 8
    raw.post_processor = processors.BertProcessing(("[SEP]", 30), ("[CLS]", 2))
    assert TextTokenizer(raw).rows == 31


def test_an_absurd_id_is_refused_before_the_library_takes_memory_for_all_ids_below(tmp_path: Path) -> None:
    TextTokenizer(words(processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)))).save(tmp_path / "tokenizer.json")
    file = json.loads((tmp_path / "tokenizer.json").read_text())
    file["model"]["vocab"]["##b"] = 4_000_000_000
    (tmp_path / "tokenizer.json").write_text(json.dumps(file))
    with pytest.raises(EncoderError, match=r"gives the token '##b' the id 4,000,000,000; expected at most 16,777,215"):
        TextTokenizer.from_folder(tmp_path)


def test_offsets_come_with_the_same_ids_and_say_where_tokens_are(tokenizer: TextTokenizer) -> None:
    texts = ["Rain and SOUP", "", "the  plot\n"]
    ids, offsets = tokenizer.with_offsets(texts)
    expected = tokenizer(texts)
    assert [ids[row].tolist() for row in range(3)] == [expected[row].tolist() for row in range(3)]
    pieces = [[text[start:end] for start, end in each] for text, each in zip(texts, offsets, strict=True)]
    assert pieces == [["Rain", "and", "SOUP"], [], ["the", "plot"]]
    with pytest.raises(DataError, match="not valid Unicode"):
        tokenizer.with_offsets(["\udcff"])


def test_the_neutral_token_is_the_mask_or_the_unknown_token_and_padding_falls_back_to_it(
    tokenizer: TextTokenizer,
) -> None:
    assert tokenizer.neutral_id() == tokenizer.mask_id()
    assert tokenizer.padding_id() == tokenizer.tokenizer.token_to_id("[PAD]")
    plain = Tokenizer(models.WordLevel({"a": 0, "b": 1, "[UNK]": 2, "[SEP]": 3}, unk_token="[UNK]"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    plain.post_processor = processors.TemplateProcessing(
        single="$A [SEP]", pair="$A [SEP] $B [SEP]", special_tokens=[("[SEP]", 3)]
    )
    assert TextTokenizer(plain).neutral_id() == TextTokenizer(plain).padding_id() == 2
