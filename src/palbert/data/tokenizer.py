"""Tokenizer: token ids of texts, and the special tokens around them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from palbert.data.ragged import Ragged
from palbert.data.tokenizer_files import read_tokenizer
from palbert.errors import DataError, EncoderError, PalbertError
from palbert.runtime.checksums import checked

BATCH = 8192
PROBE = "a \u0378 \u6f22\U0001f389 zzzz"
"""A text with words and characters that few vocabularies have: a tokenizer without an unknown token fails on it."""
LARGEST_ID = (1 << 24) - 1
"""The largest token id: no encoder has as many words, and the library takes memory for each id below the largest."""
FILES = ("tokenizer.json", "vocab.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
MASKS = ("[MASK]", "<mask>")
"""The names of the mask token in the supported families."""
PADDING = ("[PAD]", "<pad>")
"""The names of the padding token."""
UNKNOWN = ("[UNK]", "<unk>")
"""The names of the unknown token."""


@dataclass(frozen=True)
class Template:
    """The special tokens around one text (`before a after`) or two (`before a between b after`)."""

    before: NDArray[np.int32]
    between: NDArray[np.int32]
    after: NDArray[np.int32]
    types: tuple[int, ...]
    """Token types of the five parts of a pair: before, a, between, b, after."""

    @property
    def single(self) -> int:
        """The number of special tokens around one text."""
        return len(self.before) + len(self.after)

    @property
    def pair(self) -> int:
        """The number of special tokens around two texts."""
        return self.single + len(self.between)

    @property
    def filler(self) -> int:
        """A special token to pad batches with; 0 if the tokenizer has none around a text."""
        around = (*self.before, *self.after)
        return int(around[0]) if around else 0


class TextTokenizer:
    """A tokenizers.Tokenizer that returns ids without special tokens, many texts at a time, and its template.

    Args:
        tokenizer: The tokenizer; it may have any truncation and padding.
        name: What errors call it.
    """

    def __init__(self, tokenizer: Tokenizer, *, name: str = "The tokenizer") -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.tokenizer = tokenizer
        self.name = name
        self.template = _template(tokenizer, name)
        self.sha256 = hashlib.sha256(tokenizer.to_str().encode()).hexdigest()

    @classmethod
    def from_folder(cls, folder: Path) -> TextTokenizer:
        """Load tokenizer.json or, if there is none, the vocab.txt of BERT and its relatives.

        Raises:
            EncoderError: There is no tokenizer, it is damaged, or its files do not describe it completely.
        """
        for name in FILES:
            checked(folder / name)
        with _damage_reported(folder):
            tokenizer = read_tokenizer(folder)
            if tokenizer is not None:
                _check_ids(tokenizer, folder)
                tokenizer.encode(PROBE)
                return cls(tokenizer, name=f"{folder}: the tokenizer")
        raise EncoderError(
            f"{folder}: no tokenizer.json and no vocab.txt.",
            hint="Save the tokenizer next to the weights with save_pretrained.",
        )

    def save(self, path: Path) -> None:
        """Write tokenizer.json."""
        self.tokenizer.save(str(path))

    @property
    def rows(self) -> int:
        """The rows that a table of words needs: one more than the largest id."""
        around = np.concatenate([self.template.before, self.template.between, self.template.after])
        return 1 + max(int(around.max(initial=0)), *self.tokenizer.get_vocab().values(), 0)

    def mask_id(self) -> int:
        """Return the id of the mask token."""
        found = [number for number in map(self.tokenizer.token_to_id, MASKS) if number is not None]
        if not found:
            raise EncoderError(
                f"{self.name} has no mask token: found neither {' nor '.join(MASKS)}.",
                hint="Only encoders that were pretrained on masked words can be pretrained further.",
            )
        return int(found[0])

    def neutral_id(self) -> int:
        """Return the id of a token that says nothing of a word: the mask, or the unknown token where there is none."""
        found = [number for number in map(self.tokenizer.token_to_id, (*MASKS, *UNKNOWN)) if number is not None]
        return int(found[0]) if found else self.template.filler

    def padding_id(self) -> int:
        """Return the id of the padding token; of a neutral one where there is none."""
        found = [number for number in map(self.tokenizer.token_to_id, PADDING) if number is not None]
        return int(found[0]) if found else self.neutral_id()

    def ordinary_ids(self) -> list[int]:
        """Return the ids of ordinary tokens in ascending order, without special tokens and the mask token."""
        around = np.concatenate([self.template.before, self.template.between, self.template.after])
        added = self.tokenizer.get_added_tokens_decoder()
        special = {number for number, token in added.items() if token.special} | set(around.tolist())
        every = set(self.tokenizer.get_vocab().values())
        return sorted(every - special - {self.mask_id()})

    def __call__(self, texts: Sequence[str]) -> Ragged:
        """Return the token ids of each text, without special tokens."""
        parts = list(self.stream(texts))
        return parts[0] if len(parts) == 1 else Ragged.concatenate(parts)

    def with_offsets(self, texts: Sequence[str]) -> tuple[Ragged, list[list[tuple[int, int]]]]:
        """Return the token ids of each text, and where each token begins and ends in it, in characters."""
        try:
            encodings = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        except TypeError as error:
            raise _not_unicode() from error
        ids = Ragged.from_rows([encoding.ids for encoding in encodings])
        return ids, [encoding.offsets for encoding in encodings]

    def stream(self, texts: Sequence[str]) -> Iterator[Ragged]:
        """Tokenize texts in batches of a few thousand."""
        for start in range(0, max(len(texts), 1), BATCH):
            batch = list(texts[start : start + BATCH])
            try:
                encodings = self.tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            except TypeError as error:
                raise _not_unicode() from error
            yield Ragged.from_rows([encoding.ids for encoding in encodings])


def _not_unicode() -> DataError:
    """Return the error of a text with surrogates, which a terminal passes on for bytes that are not UTF-8."""
    return DataError("A text is not valid Unicode.", hint="Convert it to UTF-8.")


@contextmanager
def _damage_reported(folder: Path) -> Iterator[None]:
    """Raise EncoderError for whatever the tokenizers library raises, which has no classes for it, and panics."""
    try:
        yield
    except (PalbertError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the library derives from BaseException
        raise EncoderError(
            f"{folder}: the tokenizer cannot be read: {error}.",
            hint="Save it again with save_pretrained, or download the encoder again.",
        ) from error


def _check_ids(tokenizer: Tokenizer, folder: Path) -> None:
    """Raise EncoderError for a token id that is too large."""
    token, largest = max(tokenizer.get_vocab().items(), key=lambda item: item[1], default=("", 0))
    if largest > LARGEST_ID:
        raise EncoderError(
            f"{folder}: the tokenizer gives the token {token!r:.60} the id {largest:,}; "
            f"expected at most {LARGEST_ID:,}.",
            hint="Save it again with save_pretrained, or download the encoder again.",
        )


def _template(tokenizer: Tokenizer, name: str) -> Template:
    """Derive the special tokens from an encoded pair, so that each family keeps its own layout."""
    encoding = tokenizer.encode("a", "b")
    special = np.array(encoding.special_tokens_mask, dtype=bool)
    ids = np.array(encoding.ids, dtype=np.int32)
    types = np.array(encoding.type_ids)
    text = np.flatnonzero(~special)
    sides = np.array(encoding.sequence_ids, dtype=object)[text]
    if not special.any() or set(sides) != {0, 1}:
        raise EncoderError(
            f"{name} puts no special tokens around a pair.",
            hint="palbert needs a tokenizer of the BERT family, with its post-processor.",
        )
    first, second = text[sides == 0], text[sides == 1]
    before, between, after = (
        slice(0, first[0]),
        slice(first[-1] + 1, second[0]),
        slice(second[-1] + 1, len(ids)),
    )
    stretches = (0, first[0], first[-1] + 1, second[0], second[-1] + 1)
    return Template(ids[before], ids[between], ids[after], tuple(int(types[place]) for place in stretches))
