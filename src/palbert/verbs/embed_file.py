"""Embed a whole file chunk by chunk, in constant memory; the output appears when it is complete."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palbert.build import is_encoder
from palbert.errors import DataError, MissingExtraError
from palbert.model.pretrained import resolve_encoder
from palbert.readers import PLAIN, Chunk, as_text, column_names, count_rows, no_column, read_chunks
from palbert.runtime.files import new_file, refuse_to_replace
from palbert.runtime.progress import bar
from palbert.tasks.sources import FileSettings
from palbert.tasks.spec import Task
from palbert.verbs.engines.engine import rows_of
from palbert.verbs.hub_run import hub_id_of
from palbert.verbs.predict import Predictor, load

Write = Callable[[Chunk, NDArray[np.float32]], None]

CHUNK = 4096
VECTOR = "vector"
"""The column of a Parquet file that holds the vectors."""
HEADER = 128
"""Bytes before the vectors of a .npy file."""
log = logging.getLogger(__name__)


def load_embedder(source: str, **options: Any) -> Predictor:
    """Load a run or an encoder for embedding; what is not a folder here is looked up on the Hub.

    Args:
        source: A run folder, or an encoder: "minilm", a folder or a Hub id. `owner/name` may be either.
        **options: The options of `palbert.load`.
    """
    known = Path(source).exists() or is_encoder(source) or hub_id_of(source) is not None
    return load(source if known else resolve_encoder(source), **options)


def embed_file(
    predictor: Predictor,
    source: Path,
    output: Path,
    *,
    column: str | None = None,
    settings: FileSettings | None = None,
    pooling: str = "mean",
    normalise: bool = False,
    task: str | None = None,
    force: bool = False,
) -> int:
    """Write one vector per row of `source` to `output`; return how many there were.

    Args:
        predictor: A loaded run or encoder.
        source: A data file of any kind.
        output: A .npy file, an array of float32, (rows, hidden); or a .parquet file with the columns of the input as
            text and a column `vector`.
        column: The text column. Unless given: the run's, or the file's only one, or "text".
        settings: How the input is written, where that differs from the task's files.
        pooling: As `Predictor.embed` takes it.
        normalise: Divide each vector by its length.
        task: The task whose adapter and `max_length` are used.
        force: Replace an output that exists.
    """
    if not force:
        refuse_to_replace(output)
    open_writer = _opener(output)
    specs = list(predictor.tasks.values()) if task is None else [predictor.task(task)]
    dialect = (settings or FileSettings()).dialect_over(specs[0].dialect if specs else PLAIN)
    there = column_names(str(source), dialect=dialect)
    name = _text_column(specs, str(source), there, column)
    width = predictor.embed([], pooling=pooling, task=task).shape[1]  # also refuses a wrong pooling or task
    done = empty = 0
    with (
        new_file(output, replace=force) as temporary,
        open_writer(temporary, there, width) as write,
        bar(f"embedding {source.name}", total=count_rows(str(source), dialect=dialect)) as line,
    ):
        for chunk in read_chunks(str(source), dialect=dialect, size=CHUNK):
            texts = [text or "" for text in (chunk.column(name) if name in chunk.columns else [""] * len(chunk))]
            empty += sum(not text.strip() for text in texts)
            with rows_of(source, after=done):
                write(chunk, predictor.embed(texts, pooling=pooling, normalise=normalise, task=task))
            done += len(chunk)
            line.advance(len(chunk))
    if empty:
        log.warning("%d of %d rows had an empty text; they have a vector nevertheless.", empty, done)
    return done


def _opener(output: Path) -> Callable[[Path, list[str], int], AbstractContextManager[Write]]:
    """Return what opens an output, given its path, the columns of the input and the width of a vector."""
    openers = {".npy": _open_npy, ".parquet": _open_parquet}
    if output.suffix.lower() not in openers:
        raise DataError(f"{output}: unknown kind of file.", hint=f"Known: {', '.join(openers)}.")
    return openers[output.suffix.lower()]


def _text_column(specs: list[Task], source: str, there: list[str], column: str | None) -> str:
    """Return the column to embed; raise DataError if it is missing or nothing says which one it is."""
    if column is not None and column not in there:
        raise no_column(source, column, there)
    if column is not None:
        return column
    own = [spec.text[0] for spec in specs if spec.kind == "single"]
    likely: list[str] = [*own, *(there if len(there) == 1 else []), "text"]
    for name in likely:
        if name in there:
            return name
    raise DataError(
        f"{source}: which column is to be embedded?", hint=f"Name it with --column. There are: {', '.join(there)}."
    )


def _npy_header(rows: int, width: int) -> bytes:
    """Return the header of a .npy file of version 1.0, always of the same length."""
    facts = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}"
    magic = b"\x93NUMPY\x01\x00" + struct.pack("<H", HEADER - 10)
    return magic + facts.ljust(HEADER - 11).encode("ascii") + b"\n"


@contextmanager
def _open_npy(path: Path, columns: list[str], width: int) -> Iterator[Write]:
    """Append vectors to an array; its number of rows is written at the end."""
    with path.open("wb") as stream:
        stream.write(_npy_header(0, width))
        rows = 0

        def write(chunk: Chunk, vectors: NDArray[np.float32]) -> None:
            nonlocal rows
            stream.write(vectors.astype("<f4", copy=False).tobytes())
            rows += len(vectors)

        yield write
        stream.seek(0)
        stream.write(_npy_header(rows, width))


@contextmanager
def _open_parquet(path: Path, columns: list[str], width: int) -> Iterator[Write]:
    """Append rows of text columns and vectors."""
    if VECTOR in columns:
        raise DataError(f"The column '{VECTOR}' of the input would clash with the vectors.", hint="Rename it.")
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("Parquet files need", package="pyarrow", extra="parquet") from None
    vector = pyarrow.list_(pyarrow.float32(), width)
    schema = pyarrow.schema([*((name, pyarrow.string()) for name in columns), (VECTOR, vector)])

    def write(chunk: Chunk, vectors: NDArray[np.float32]) -> None:
        missing: list[Any] = [None] * len(chunk)
        texts = [[as_text(value) for value in chunk.columns.get(name, missing)] for name in columns]
        arrays = [pyarrow.array(column, pyarrow.string()) for column in texts]
        flat = pyarrow.array(np.ascontiguousarray(vectors).reshape(-1), pyarrow.float32())
        arrays.append(pyarrow.FixedSizeListArray.from_arrays(flat, width))
        writer.write_table(pyarrow.table(arrays, schema=schema))

    with pyarrow.parquet.ParquetWriter(path, schema, write_page_checksum=True) as writer:
        yield write
