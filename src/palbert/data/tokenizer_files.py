"""Tokenizer files: the tokenizer of an encoder folder, read as transformers reads it, or refused."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

from palbert.data.tokenizer_settings import ROLES, TokenizerSettings, read_tokenizer_settings
from palbert.errors import EncoderError, PalbertError
from palbert.options import check_switch

log = logging.getLogger(__name__)

PROBE = "ÀÉ naïve 漢字 Straße"
"""A text that tells the settings of BERT's normalizer apart."""
SAVE_AGAIN = 'Save it with transformers: AutoTokenizer.from_pretrained(folder).save_pretrained("new").'
NO_JSON = "palbert reads vocab.txt of BERT's relatives, and tokenizer.json of all encoders."
NORMALIZER = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
"""The settings of BERT's normalizer in tokenizer_config.json."""


@dataclass(frozen=True)
class WordPieceFamily:
    """A tokenizer that vocab.txt describes completely, with the defaults of its settings."""

    special: Mapping[str, str]
    """The special tokens by role."""
    stripped: tuple[str, ...] = ()
    """Roles whose token swallows the space before it in a text."""
    like_roberta: bool = False
    """Whether special tokens are put around texts as RoBERTa does: two between the texts of a pair, and no types."""


BERT = WordPieceFamily(
    {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}
)
MPNET = WordPieceFamily(
    {
        "bos_token": "<s>", "eos_token": "</s>", "unk_token": "[UNK]", "sep_token": "</s>", "pad_token": "<pad>",
        "cls_token": "<s>", "mask_token": "<mask>",
    },
    stripped=("mask_token",),
    like_roberta=True,
)  # fmt: skip
CLASSES = {"BertTokenizer": BERT, "DistilBertTokenizer": BERT, "ElectraTokenizer": BERT, "MPNetTokenizer": MPNET}
"""By the class that tokenizer_config.json or config.json names; an ending "Fast" makes no difference."""
MODEL_TYPES = {"": BERT, "bert": BERT, "distilbert": BERT, "electra": BERT, "mpnet": MPNET}
"""By the model type, where no class is named; empty without config.json."""
OTHER_FILES = {"BertJapaneseTokenizer": "vocab.txt", "BertweetTokenizer": "bpe.codes", "PhobertTokenizer": "bpe.codes"}
"""Classes that never read tokenizer.json, with what they read."""


def read_tokenizer(folder: Path) -> Tokenizer | None:
    """Read the tokenizer of an encoder folder; None if it has none."""
    settings = read_tokenizer_settings(folder)
    _refuse_unreadable(settings, folder)
    if (folder / "tokenizer.json").is_file():
        return _from_json(settings, folder)
    return _from_vocabulary(settings, folder) if (folder / "vocab.txt").is_file() else None


def _refuse_unreadable(settings: TokenizerSettings, folder: Path) -> None:
    """Refuse a tokenizer that is code of its own, which the files of the folder do not describe."""
    japanese = {key: settings.values[key] for key in ("word_tokenizer_type", "subword_tokenizer_type")
                if settings.values.get(key) is not None}  # fmt: skip
    if japanese or settings.class_name in OTHER_FILES:
        found = ", ".join(f"{key} = {value!r}" for key, value in japanese.items()) or settings.class_name
        raise EncoderError(
            f"{folder}: this tokenizer needs a program of its own to find words ({found}).",
            hint="palbert reads tokenizers that tokenizer.json describes completely: take an encoder with one, such as "
            "the multilingual 'xlm-roberta-base'.",
        )
    if settings.values.get("split_special_tokens"):
        raise EncoderError(
            f"{settings.place}: split_special_tokens is not supported.",
            hint="Set it to false if texts have no special tokens written out.",
        )


def _from_json(settings: TokenizerSettings, folder: Path) -> Tokenizer:
    """Read tokenizer.json, and what tokenizer_config.json, if it is there, changes in it."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if Path(settings.place).is_file():
        if _family(settings) is not None:
            _apply_normalizer(tokenizer, settings, folder)
        elif settings.class_name == "RobertaTokenizer":
            _apply_prefix_space(tokenizer, settings)
        _compare_special(tokenizer, settings)
    _add_tokens(tokenizer, settings, list(settings.special.values()))
    return tokenizer


def _family(settings: TokenizerSettings) -> WordPieceFamily | None:
    """Return the family of a tokenizer, None if it is not one of BERT's."""
    by_class = CLASSES.get(settings.class_name)
    return by_class if settings.class_name else MODEL_TYPES.get(settings.model_type)


def _apply_normalizer(tokenizer: Tokenizer, settings: TokenizerSettings, folder: Path) -> None:
    """Let tokenizer_config.json decide about lowercase, accents and Chinese characters, as transformers does."""
    former, wanted = tokenizer.normalizer, _normalizer(settings)
    before = PROBE if former is None else former.normalize_str(PROBE)
    given = [f"{key} = {settings.values.get(key)!r}" for key in NORMALIZER if key in settings.values]
    if before == wanted.normalize_str(PROBE):
        return
    if isinstance(former, normalizers.BertNormalizer):
        said = ", ".join(given) or "no do_lower_case, which stands for true"
        log.warning("%s changes the normalizer of tokenizer.json, as in transformers: %s", settings.place, said)
        tokenizer.normalizer = wanted
    elif given:
        raise EncoderError(
            f"{folder}: tokenizer.json and tokenizer_config.json disagree: the normalizer of the former does not do "
            f"what the latter says ({', '.join(given)}).",
            hint="Remove these settings from tokenizer_config.json if tokenizer.json is right.",
        )


def _apply_prefix_space(tokenizer: Tokenizer, settings: TokenizerSettings) -> None:
    """Let tokenizer_config.json decide whether RoBERTa's tokenizer puts a space before a text."""
    ahead, space = tokenizer.pre_tokenizer, settings.values.get("add_prefix_space")
    if isinstance(ahead, pre_tokenizers.ByteLevel) and space is not None:
        ahead.add_prefix_space = _switch(settings, "add_prefix_space", space)
        tokenizer.pre_tokenizer = ahead


def _compare_special(tokenizer: Tokenizer, settings: TokenizerSettings) -> None:
    """Refuse special tokens that tokenizer.json puts elsewhere than tokenizer_config.json says."""
    around = tokenizer.encode("").ids
    found = {"cls_token": around[:1], "sep_token": around[-1:]}
    unknown = getattr(tokenizer.model, "unk_token", None)
    for role, ids in found.items():
        token = settings.special.get(role)
        if token is not None and ids and tokenizer.token_to_id(token.content) not in ids:
            _disagree(settings, role, token.content, tokenizer.id_to_token(ids[0]))
    token = settings.special.get("unk_token")
    if token is not None and unknown is not None and token.content != unknown:
        _disagree(settings, "unk_token", token.content, unknown)


def _disagree(settings: TokenizerSettings, role: str, found: str, other: str | None) -> None:
    raise EncoderError(
        f"{settings.place}: {role} is {found!r}, and in tokenizer.json it is {other!r}.",
        hint="Correct the file that is wrong.",
    )


def _from_vocabulary(settings: TokenizerSettings, folder: Path) -> Tokenizer:
    """Build the tokenizer of vocab.txt, as the classes of transformers do that have only this file."""
    family = _family(settings)
    if family is None:
        kind = settings.class_name or f"the tokenizer of {settings.model_type}"
        raise EncoderError(f"{folder}: vocab.txt alone does not describe {kind}.", hint=f"{NO_JSON} {SAVE_AGAIN}")
    if settings.values.get("do_basic_tokenize") is False or _never_split(settings):
        raise EncoderError(
            f"{settings.place}: do_basic_tokenize = false and never_split mean something only to tokenizers in Python.",
            hint=f"{SAVE_AGAIN} The result has no such settings.",
        )
    special = {role: AddedToken(token, special=True, normalized=False, lstrip=role in family.stripped)
               for role, token in family.special.items() if settings.values.get(role, token) is not None}  # fmt: skip
    special |= settings.special
    vocabulary = models.WordPiece.read_file(str(folder / "vocab.txt"))
    for role in ("unk_token", "cls_token", "sep_token"):
        content = special[role].content if role in special else None
        if content not in vocabulary:
            raise EncoderError(
                f"{folder / 'vocab.txt'}: no line {content!r}, which is the {role}.",
                hint=f"Name the right token in tokenizer_config.json: {role}.",
            )
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=special["unk_token"].content))
    tokenizer.normalizer = _normalizer(settings)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    order = {role: number for number, role in enumerate(ROLES)}
    _add_tokens(tokenizer, settings, [special[role] for role in sorted(special, key=lambda each: order.get(each, 99))])
    tokenizer.post_processor = _post_processor(
        family, special["cls_token"].content, special["sep_token"].content, vocabulary
    )
    return tokenizer


def _never_split(settings: TokenizerSettings) -> bool:
    """Whether never_split names more than special tokens, which are never split."""
    given = settings.values.get("never_split") or []
    special = {token.content for token in settings.special.values()} | set(BERT.special.values())
    return not isinstance(given, list) or any(token not in special for token in given)


def _normalizer(settings: TokenizerSettings) -> normalizers.Normalizer:
    """Return BERT's normalizer with the settings of tokenizer_config.json."""
    values = settings.values
    accents = values.get("strip_accents")
    return normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=_switch(settings, "tokenize_chinese_chars", values.get("tokenize_chinese_chars", True)),
        strip_accents=None if accents is None else _switch(settings, "strip_accents", accents),
        lowercase=_switch(settings, "do_lower_case", values.get("do_lower_case", True)),
    )


def _switch(settings: TokenizerSettings, key: str, value: Any) -> bool:
    try:
        return check_switch(key, value)
    except PalbertError as error:
        raise EncoderError(f"{settings.place}: {error.message}") from None


def _post_processor(
    family: WordPieceFamily, before: str, after: str, vocabulary: Mapping[str, int]
) -> processors.PostProcessor:
    """Return what puts special tokens around texts."""
    ids = {token: vocabulary[token] for token in (before, after)}
    if family.like_roberta:
        return processors.RobertaProcessing((after, ids[after]), (before, ids[before]), True, False)
    return processors.TemplateProcessing(
        single=f"{before}:0 $A:0 {after}:0",
        pair=f"{before}:0 $A:0 {after}:0 $B:1 {after}:1",
        special_tokens=list(ids.items()),
    )


def _add_tokens(tokenizer: Tokenizer, settings: TokenizerSettings, special: Sequence[AddedToken]) -> None:
    """Add the tokens that are found in a text as they are written; those in the vocabulary keep their ids."""
    tokens = [token for _, token in sorted(settings.added.items())]
    known = {token.content for token in [*tokens, *tokenizer.get_added_tokens_decoder().values()]}
    tokenizer.add_tokens([*tokens, *(token for token in special if token.content not in known)])
    for number, token in settings.added.items():
        if (found := tokenizer.token_to_id(token.content)) != number:
            raise EncoderError(
                f"{settings.place}: the added token {token.content!r} has the id {number}, and in the vocabulary "
                f"{found}.",
                hint=SAVE_AGAIN,
            )
