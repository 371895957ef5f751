"""Checked names: a field that takes one of a few names, or a user's own "module:Class"."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    WrapSerializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from palbert.errors import did_you_mean
from palbert.registry import OWN_CLASS, Registry


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

    @property
    def options(self) -> dict[str, Any]:
        """Everything but the name: the keyword arguments of the class."""
        return dict(self.model_extra or {})


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


Target = Literal["classes", "binary", "number"]
