"""Readers: files and Hub data sets as chunks of text columns."""

from palbert.readers.chunk import Chunk, as_text
from palbert.readers.dialect import PLAIN, Decimal, Dialect, Quoting, check_encoding, check_header, check_separator
from palbert.readers.files import SUFFIXES, FileGoneError, resolve_files
from palbert.readers.headers import headless_hint, no_column
from palbert.readers.read import column_names, count_rows, count_values, read_chunks, read_lines
from palbert.readers.remote import is_remote

__all__ = [
    "PLAIN",
    "SUFFIXES",
    "Chunk",
    "Decimal",
    "Dialect",
    "FileGoneError",
    "Quoting",
    "as_text",
    "check_encoding",
    "check_header",
    "check_separator",
    "column_names",
    "count_rows",
    "count_values",
    "headless_hint",
    "is_remote",
    "no_column",
    "read_chunks",
    "read_lines",
    "resolve_files",
]
