"""Pages: the shared ground of the HTML reports, one self-contained file each."""

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
    """A drawing and the sentence under it."""

    svg: Markup
    caption: str


def plot(caption: str, draw: Callable[..., str], *arguments: Any, **settings: Any) -> list[Plot]:
    """Draw one plot; the list is empty where matplotlib is not installed."""
    try:
        return [Plot(Markup(draw(*arguments, **settings)), caption)]  # our own SVG, already escaped
    except MissingExtraError:
        return []


def plots_note() -> str:
    """Say how to get the plots, where they cannot be drawn; empty where they can."""
    try:
        require_matplotlib()
    except MissingExtraError as error:
        return str(error)
    return ""


def render(template: str, **values: Any) -> str:
    """Fill a template of this package; every value is HTML-escaped unless it is Markup."""
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
