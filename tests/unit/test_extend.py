"""palbert.extend: it has the base class of every kind of part, and all of them are abstract."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator

import pytest

from palbert import extend, registry
from palbert.registry import Registry


def bases() -> Iterator[tuple[str, str]]:
    """Yield every base class as "module:Class", with its kind of part."""
    for table in vars(registry).values():
        if isinstance(table, Registry):
            yield from ((path, table.kind) for path in table.bases)


BASES = dict(bases())


@pytest.mark.parametrize("path", BASES)
def test_the_base_class_of_every_kind_of_part_is_in_extend(path: str) -> None:
    module, _, name = path.partition(":")
    assert getattr(extend, name) is getattr(importlib.import_module(module), name)
    assert name in extend.__all__


@pytest.mark.parametrize("path", BASES)
def test_a_base_class_says_what_it_is_and_what_has_to_be_implemented(path: str) -> None:
    cls = getattr(extend, path.partition(":")[2])
    assert inspect.getdoc(cls)
    if path not in OPTIONAL:
        assert inspect.isabstract(cls)


OPTIONAL = {"palbert.model.adapters:Adapter", "palbert.model.families:Family"}
"""An adapter's methods all have a default; a family is a value."""


def test_extend_exports_nothing_else_than_it_lists() -> None:
    public = {name for name, value in vars(extend).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert public - {"annotations"} == set(extend.__all__)
