"""The tokenizer of an encoder: loaded, and compared with the encoder's table of words."""

from __future__ import annotations

from pathlib import Path

from palbert.data.tokenizer import TextTokenizer
from palbert.errors import EncoderError
from palbert.model.pretrained import read_folder_config


def load_tokenizer(folder: Path) -> TextTokenizer:
    """Load the tokenizer of an encoder folder; raise EncoderError if its ids go beyond the encoder's words."""
    words = read_folder_config(folder).vocabulary_size
    tokenizer = TextTokenizer.from_folder(folder)
    check_rows(tokenizer, words, folder)
    return tokenizer


def check_rows(tokenizer: TextTokenizer, words: int, folder: Path) -> None:
    """Refuse a tokenizer with ids that the encoder's table of words has no rows for."""
    if tokenizer.rows > words:
        raise EncoderError(
            f"{folder}: the tokenizer has ids up to {tokenizer.rows - 1:,}, and the encoder has words up to "
            f"{words - 1:,} (vocab_size {words:,}).",
            hint="They belong to different encoders, or tokens were added: save both again with save_pretrained, "
            "the encoder after resize_token_embeddings(len(tokenizer)).",
        )
