"""Checked names: what a field that names a part accepts, refuses and writes."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from palbert.registry import Registry
from palbert.tasks.choices import Component, component, one_of

PARTS = Registry("part", group="parts", base="", paths=dict.fromkeys(("one", "two", "three"), "os:system"))
CHOICE: TypeAdapter[Component] = TypeAdapter(component(PARTS))


def test_a_component_keeps_its_options_apart_from_its_name() -> None:
    written = Component.model_validate({"name": "mlp", "width": 3, "deep": True})
    assert (written.name, written.options) == ("mlp", {"width": 3, "deep": True})
    assert Component.model_validate("mlp") == Component(name="mlp")
    assert Component(name="mlp").options == {}


@pytest.mark.parametrize("value", [[None], {"deep": [1, {"x": None}]}, object(), {1: 2}, [b"x"]])
def test_an_option_that_no_file_can_hold_is_refused(value: Any) -> None:
    with pytest.raises(ValidationError, match="option 'decay': expected text, numbers"):
        Component.model_validate({"name": "one", "decay": value})


@pytest.mark.parametrize("value", ["x", 1, 0.5, True, [1, ["x"]], {"deep": {"x": []}}, (1, 2), None])
def test_an_option_that_files_can_hold_is_accepted(value: Any) -> None:
    assert Component.model_validate({"name": "one", "decay": value}).options == {"decay": value}


@pytest.mark.parametrize("name", ["one", "module:Class", "package.module:Class", "_m:_C"])
def test_a_component_may_be_a_known_name_or_a_users_own_class(name: str) -> None:
    assert CHOICE.validate_python(name) == Component(name=name)
    assert CHOICE.validate_python({"name": name, "depth": 2}).options == {"depth": 2}


@pytest.mark.parametrize("name", ["ones", "module:", ":Class", "a b:C", "module:Class:more", "1module:Class"])
def test_a_component_of_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="unknown name"):
        CHOICE.validate_python(name)


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(Exception, match=r"unknown name 'thre'\. Known: one, three, two\. Did you mean 'three'\?"):
        one_of(PARTS).func("thre")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("bare", "value", "written"),
    [
        (True, "one", "one"),
        (True, {"name": "one"}, "one"),
        (True, {"name": "one", "depth": 2}, {"name": "one", "depth": 2}),
        (False, "one", {"name": "one"}),
        (False, {"name": "one", "depth": 2}, {"name": "one", "depth": 2}),
    ],
)
def test_a_part_is_written_as_a_bare_name_only_where_asked_for_and_without_options(
    bare: bool, value: Any, written: Any
) -> None:
    choice: TypeAdapter[Component] = TypeAdapter(component(PARTS, bare=bare))
    read = choice.validate_python(value)
    assert choice.dump_python(read) == choice.dump_python(read, mode="json") == written
    assert choice.validate_python(written) == read


def test_a_part_as_the_default_is_left_out_when_defaults_are() -> None:
    class Section(BaseModel):
        part: component(PARTS, bare=True) = Component(name="one")  # type: ignore[valid-type]

    assert Section.model_validate({"part": {"name": "one"}}).model_dump(exclude_defaults=True) == {}
    assert Section.model_validate({"part": "two"}).model_dump(exclude_defaults=True) == {"part": "two"}
