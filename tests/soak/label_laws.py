"""Laws of labels: what is read is the number or the class that the file has, or it is refused with its place."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.soak.material import recipe

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
numbers = st.one_of(st.floats(width=32).map(repr), st.integers().map(str), texts, st.from_regex(r"[-+0-9eE._ ]{1,8}"))


@given(label=numbers)
def law_of_numbers(folder: Path, label: str) -> None:
    """A label that is read as a number is one, and the same number."""
    import numpy

    found = _label(folder, {"target": "number", "range": [0, 6]}, "2.5", label)
    if found is None:
        assert not re.fullmatch(r"[0-5](\.[0-9]{1,6})?", label), f"{label!r} was refused"
        return
    assert NUMBER.fullmatch(label.strip()), f"{label!r} was read"
    assert math.isfinite(found) and numpy.float32(float(label)) == numpy.float32(found), f"{found} for {label!r}"


@given(label=st.sampled_from(["no", "yes", " yes", "Yes", "1", "1.0", "0", "01", "1_0"]) | texts)
def law_of_classes(folder: Path, label: str) -> None:
    """A label that is read as a class is its name or its number."""
    found = _label(folder, {"target": "classes", "classes": ["no", "yes"]}, "yes", label)
    if found is None:
        assert label not in ("no", "yes"), f"{label!r} was refused"
    else:
        text = label.strip()  # spreadsheets write 1 as 1.0, and other programs as 01
        its_number = NUMBER.fullmatch(text) is not None and float(text) == found
        assert text == ["no", "yes"][found] or its_number, f"{found} for {label!r}"


CLASSES = ("joy", "anger", "old age")
cells = st.lists(st.sampled_from([*CLASSES, " joy ", "Joy", "0", "2", "7", "", "anger|joy"]) | texts, max_size=4)


@given(found=cells, joined=st.booleans())
def law_of_multilabel(folder: Path, found: list[str], joined: bool) -> None:
    """A cell with several classes, as a list or as one text, is read as exactly these."""
    label = "|".join(found) if joined else found
    read = _label(folder, {"target": "multilabel", "classes": list(CLASSES)}, "joy", label)
    items = [item.strip() for item in (label.split("|") if isinstance(label, str) else label) if item.strip()]
    if read is None:
        assert not items or not all(item in CLASSES for item in items), f"{label!r} was refused"
        return
    wanted = {CLASSES.index(item) if item in CLASSES else float(item) for item in items}
    assert {index for index, value in enumerate(read) if value} == wanted, f"{read} for {label!r}"


def _label(folder: Path, settings: dict[str, Any], known: str, label: str | list[str]) -> Any:
    """Return how a label is read in the second of three rows, where the others are known; None if it is refused."""
    from palbert.data.dataset import load_dataset
    from palbert.data.tokenizer import TextTokenizer
    from palbert.errors import PalbertError
    from palbert.recipe.load import make_recipe
    from palbert.tasks.sets import files_of

    data = folder / "labels.jsonl"
    rows = [{"text": "good", "label": value} for value in (known, label, known)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    columns = {"kind": "single", "text": "text", "label": "label", "train": str(data), "dev": str(data)}
    made = recipe(folder) | {"tasks": {"own": {**columns, **settings, "max_length": 16}}}
    try:
        files = files_of(make_recipe(made).tasks["own"], "train")
        found = load_dataset(files, TextTokenizer.from_folder(folder / "encoder"), cache=folder / "cache")
    except PalbertError as error:
        assert data.name in str(error), f"an error without a place: {error}"
        return None
    if found.labels is None or len(found) != 3:
        return None
    return found.labels[1].tolist()
