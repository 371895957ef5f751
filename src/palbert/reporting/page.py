"""Pages: what all HTML reports share; each is one self-contained file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from palbert.errors import MissingExtraError
from palbert.reporting import wording
from palbert.reporting.svg import require_matplotlib


@dataclass(frozen=True)
class Plot:
    """A drawing and its caption."""

    svg: Markup
    caption: str


def plot(caption: str, draw: Callable[..., str], *arguments: Any, **settings: Any) -> list[Plot]:
    """Return a list of one plot; it is empty if matplotlib is not installed."""
    try:
        return [Plot(Markup(draw(*arguments, **settings)), caption)]  # our own SVG, already escaped
    except MissingExtraError:
        return []


def plots_note() -> str:
    """Return how to install matplotlib if it is missing, otherwise an empty string."""
    try:
        require_matplotlib()
    except MissingExtraError as error:
        return str(error)
    return ""


def render(template: str, **values: Any) -> str:
    """Fill a template of this package; values are HTML-escaped unless they are Markup."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (
        wording.number,
        wording.signed,
        wording.percent,
        wording.count,
        wording.duration,
        wording.size,
    ):
        environment.filters[function.__name__] = function
    environment.filters["plural"] = wording.plural
    return environment.get_template(template).render(plots_note=plots_note(), **values)
