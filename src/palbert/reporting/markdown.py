"""Markdown: pages whose values cannot become markup, as model cards are shown on pages of others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from palbert.reporting import wording
from palbert.runtime.visible import visible_line

SIGNS = re.compile(r"([\\`*_\[\]|~#$])")
"""What may begin or end something in Markdown, wherever it is in a line."""


def escaped(value: Any) -> str:
    """Return a value as Markdown shows it literally, in one line; Markup stays as it is."""
    if isinstance(value, Markup):
        return str(value)
    text = visible_line(str(value).replace("\r", "").replace("\n", " ").replace("\t", " "))
    text = SIGNS.sub(r"\\\1", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def render_markdown(template: str, **values: Any) -> str:
    """Fill a template of this package; every value is escaped unless it is Markup."""
    environment = Environment(  # not HTML: `finalize` escapes for Markdown
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        finalize=escaped,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for function in (wording.number, wording.signed, wording.percent, wording.count, wording.duration, wording.size):
        environment.filters[function.__name__] = function
    environment.filters["plural"] = wording.plural
    return environment.get_template(template).render(**values)
