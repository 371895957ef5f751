"""Laws: hypothesis draws tables, labels, recipes and texts; each gives a PalbertError, or exactly what was put in."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from tests.soak.children import call
from tests.soak.jobs import write_run
from tests.soak.label_laws import law_of_classes, law_of_multilabel, law_of_numbers
from tests.soak.material import columns, recipe, write_encoder, write_inputs
from tests.soak.trials import Trial

EXAMPLES = 25
"""Inputs that hypothesis draws for one seed."""

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.text(st.characters(categories=["Lu", "Ll", "Nd"]), min_size=1, max_size=8)
tables = st.lists(names, min_size=1, max_size=4, unique=True).flatmap(
    lambda header: st.lists(st.fixed_dictionaries(dict.fromkeys(header, texts)), min_size=1, max_size=6)
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def same_rows(path: Path, rows: Sequence[dict[str, str]]) -> None:
    """Check that palbert reads a file as these rows; an empty cell and a missing one are the same."""
    from palbert.errors import PalbertError

    try:
        found = columns(path)
    except PalbertError as error:
        assert path.name in str(error), f"an error without a place: {error}"
        return
    for name in rows[0]:
        wanted = [row[name] for row in rows]
        assert [cell or "" for cell in found.get(name, [])] == wanted, f"{found.get(name)} was read for {wanted}"


@given(rows=tables, separator=st.sampled_from(",;\t|"), packed=st.booleans())
def law_of_separated(folder: Path, rows: list[dict[str, str]], separator: str, packed: bool) -> None:
    """Separated text with all cells in quotes reads back, with its separator named."""
    from palbert.errors import PalbertError
    from palbert.readers import Dialect, read_chunks

    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, list(rows[0]), delimiter=separator, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path = folder / ("rows.csv.gz" if packed else "rows.csv")
    content = stream.getvalue().encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    try:
        chunks = list(read_chunks(str(path), dialect=Dialect(separator=separator)))
    except PalbertError as error:
        assert path.name in str(error), f"an error without a place: {error}"
        return
    for name in rows[0]:
        found = [cell or "" for chunk in chunks for cell in chunk.columns.get(name, [])]
        assert found == [row[name] for row in rows], f"{found} was read for {[row[name] for row in rows]}"


@given(rows=tables)
def law_of_json(folder: Path, rows: list[dict[str, str]]) -> None:
    """A list of objects reads back."""
    (folder / "rows.json").write_text(json.dumps(rows), "utf-8")
    same_rows(folder / "rows.json", rows)


@given(rows=tables, escaped=st.booleans())
def law_of_jsonl(folder: Path, rows: list[dict[str, str]], escaped: bool) -> None:
    """An object per line reads back, also with line separators of Unicode inside of texts."""
    lines = [json.dumps(row, ensure_ascii=escaped) for row in rows]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n", "utf-8", newline="\n")
    same_rows(folder / "rows.jsonl", rows)


@given(rows=tables)
def law_of_parquet(folder: Path, rows: list[dict[str, str]]) -> None:
    """A table that pyarrow wrote reads back."""
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "rows.parquet")
    same_rows(folder / "rows.parquet", rows)


@given(rows=tables)
def law_of_outputs(folder: Path, rows: list[dict[str, str]]) -> None:
    """What palbert writes, palbert reads back, for every kind of file that can hold the texts."""
    from palbert.errors import DataError
    from palbert.verbs.table_writers import OPENERS, new_table

    if any(not any(row.values()) for row in rows):
        return  # a line without anything is no row
    for suffix in OPENERS:
        path = folder / f"written{suffix}"
        try:
            with new_table(path) as write:
                write({name: [row[name] for row in rows] for name in rows[0]})
        except DataError as error:
            assert str(path) in str(error), f"an error without a place: {error}"
            continue
        # As in spreadsheet programs, a row of a workbook with nothing but spaces cannot be told from an empty one.
        seen = [row for row in rows if suffix != ".xlsx" or any(map(str.strip, row.values()))]
        if seen:
            same_rows(path, seen)


@given(data=st.data())
def law_of_recipes(folder: Path, data: Any) -> None:
    """A recipe with any value in any place is refused, or reads back as it was written."""
    from palbert.errors import PalbertError
    from palbert.recipe.load import dump_recipe, load_recipe, make_recipe

    given_values = recipe(folder)
    holder: Any = given_values
    while True:
        key = data.draw(st.sampled_from(sorted(holder)) | st.sampled_from(["phases", "gradients", "objectives", "x"]))
        if not isinstance(holder.get(key), dict) or not holder[key] or data.draw(st.booleans()):
            break
        holder = holder[key]
    holder[key] = data.draw(values)
    try:
        made = make_recipe(given_values)
        (folder / "again.toml").write_text(dump_recipe(made), "utf-8")
        again = load_recipe(folder / "again.toml")
    except PalbertError:
        return
    assert again.model_dump() == made.model_dump(), f"another recipe after {key} = {holder[key]!r}"


@given(batch=st.lists(texts, min_size=1, max_size=5))
def law_of_predictions(folder: Path, batch: list[str]) -> None:
    """A text is answered the same alone and next to others."""
    import palbert

    predictor = _PREDICTORS.setdefault(str(folder), None) or palbert.load(folder / "run")
    _PREDICTORS[str(folder)] = predictor
    together = [float(found.answer) for found in predictor.predict("score", batch)]
    alone = [float(predictor.predict("score", [text])[0].answer) for text in batch]
    assert all(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-4) for a, b in zip(together, alone, strict=True))


_PREDICTORS: dict[str, Any] = {}


def _nothing(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)


LAWS: dict[str, tuple[Callable[..., None], Callable[[Path], object]]] = {
    "separated text": (law_of_separated, _nothing),
    "JSON": (law_of_json, _nothing),
    "JSON lines": (law_of_jsonl, _nothing),
    "Parquet": (law_of_parquet, _nothing),
    "written files": (law_of_outputs, _nothing),
    "numbers as labels": (law_of_numbers, lambda folder: write_encoder(folder / "encoder")),
    "classes as labels": (law_of_classes, lambda folder: write_encoder(folder / "encoder")),
    "several classes as labels": (law_of_multilabel, lambda folder: write_encoder(folder / "encoder")),
    "recipes": (law_of_recipes, write_inputs),
    "texts to predict": (law_of_predictions, write_run),
}
"""Each law, and what prepares the folder that it is given."""


def trials(folder: Path, *, first: int, step: int = 1, rounds: int | None = None) -> Iterator[Trial]:
    """Give all laws again and again, with other seeds."""
    places = {name: _prepared(name, folder / name) for name in LAWS}
    for number in count(first, step) if rounds is None else range(first, first + rounds * step, step):
        for name, place in places.items():
            yield _trial(name, place, number)


def repeat(name: str, folder: Path) -> str | None:
    """Try the inputs of a law and a seed again."""
    _, law, number = name.split(":")
    return _problem(law, _prepared(law, folder / law), int(number))


def _trial(name: str, place: Path, number: int) -> Trial:
    def attempt() -> dict[str, str]:
        problem = _problem(name, place, number)
        return {f"law:{name}:{number}": problem} if problem else {}

    return Trial("generated inputs", name, "inputs", attempt, EXAMPLES)


def _prepared(name: str, folder: Path) -> Path:
    folder.mkdir(parents=True)

    def prepare() -> None:
        LAWS[name][1](folder)

    ended = call(prepare, folder, {"PALBERT_CACHE": str(folder / "cache")})
    if ended.code:
        raise RuntimeError(f"{name} cannot be prepared: {ended.said[-3000:]}")
    return folder


def _problem(name: str, folder: Path, number: int) -> str | None:
    """Draw inputs with one seed in a child; return what is wrong with the smallest one found, if any is."""

    def draw() -> str | None:
        law = settings(max_examples=EXAMPLES, database=None, deadline=None, suppress_health_check=list(HealthCheck))(
            LAWS[name][0]
        )
        try:
            seed(number)(law)(folder)
        except BaseException:
            return traceback.format_exc()[-3000:]
        return None

    ended = call(draw, folder, {"PALBERT_CACHE": str(folder / "cache")})
    if ended.code:
        return f"ended the process with {ended.code}: {ended.said[-2000:]}"
    return ended.value  # type: ignore[no-any-return]
