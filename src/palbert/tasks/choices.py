"""Checked names: a field that takes one of a few names, or a user's own "module:Class"."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    WrapSerializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from palbert.errors import PalbertError, RecipeError, did_you_mean
from palbert.options import check_options
from palbert.registry import OWN_CLASS, TARGETS, Registry
from palbert.targets import Target


def one_of(registry: Registry) -> AfterValidator:
    """Return a validator that accepts the names of a registry and "module:Class"."""

    def check(value: str) -> str:
        if value in registry or OWN_CLASS.match(value):
            return value
        raise PydanticCustomError(
            "unknown_name",
            "unknown name '{value}'. {known}",
            {"value": value, "known": did_you_mean(value, registry)},
        )

    return AfterValidator(check)


class Component(BaseModel):
    """A named part with its options: `"annealed"`, or `{name = "annealed", decay = 0.5}`."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    name: str
    """A known name, or "module:Class"."""

    @model_validator(mode="before")
    @classmethod
    def _accept_bare_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _refuse_what_no_file_holds(self) -> Component:
        for name, value in self.options.items():
            if value is not None and (found := _unwritable(value)) is not None:
                raise PydanticCustomError(
                    "unwritable",
                    "option '{option}': expected text, numbers, true or false, lists or tables, found {found}",
                    {"option": name, "found": repr(found[0])},
                )
        return self

    @property
    def options(self) -> dict[str, Any]:
        """Everything but the name: the keyword arguments of the class."""
        return dict(self.model_extra or {})


def _unwritable(value: Any) -> tuple[Any] | None:
    """Return, in a tuple, a value inside this one that TOML and JSON cannot both hold; None if there is none."""
    if isinstance(value, dict):
        unnamed = [(key,) for key in value if not isinstance(key, str)]
        return unnamed[0] if unnamed else _unwritable(list(value.values()))
    if isinstance(value, list | tuple):
        return next((found for each in value if (found := _unwritable(each)) is not None), None)
    return None if isinstance(value, str | int | float) else (value,)


def component(registry: Registry, *, section: type[Component] = Component, bare: bool = False) -> Any:
    """Return the field type of a Component whose name is in a registry or is a "module:Class".

    Args:
        registry: The known names.
        section: The class, where the recipe's section has fields of its own.
        bare: Write a part without options as its name, not as a table.
    """
    check = one_of(registry)

    def check_name(value: Component) -> Component:
        check.func(value.name)  # type: ignore[call-arg]
        return value

    checked: Any = Annotated[section, AfterValidator(check_name)]
    return Annotated[checked, WrapSerializer(_bare_name)] if bare else checked


def _bare_name(value: Component, write: SerializerFunctionWrapHandler) -> Any:
    return write(value) if value.options else value.name


def target_class(choice: Any) -> type[Target] | None:
    """Return the class that a recipe names as a target; None where there is none, which validation reports."""
    name = choice.get("name") if isinstance(choice, dict) else choice
    if not isinstance(name, str) or not (name in TARGETS or OWN_CLASS.match(name)):
        return None
    try:
        found: type[Target] = TARGETS.find(name)
    except RecipeError:
        return None
    return found


def make_target(choice: Component, *, classes: tuple[str, ...], range: tuple[float, float] | None) -> Target:
    """Make the target that a recipe names, with its options."""
    cls = TARGETS.find(choice.name)
    settings = {"classes": classes, "range": range}
    check_options(cls, (), settings, choice.options, choice.name)
    target: Target = cls(**settings, **choice.options)
    target.choice = choice.model_dump() if choice.options else choice.name
    return target


def _built(choice: Component, info: ValidationInfo) -> Target:
    try:
        return make_target(choice, classes=info.data.get("classes", ()), range=info.data.get("range"))
    except PalbertError as error:
        raise PydanticCustomError("contradiction", "{problem}", {"problem": str(error)}) from None


def target_field() -> Any:
    """Return the field type of a target: read as a Component, kept as a Target; after `classes` and `range`."""
    return Annotated[component(TARGETS), AfterValidator(_built), PlainSerializer(lambda target: target.choice)]
