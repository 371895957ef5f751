"""Pages: values are escaped, drawings are not, and missing values are errors."""

from __future__ import annotations

from typing import Any

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup

from palbert.errors import MissingExtraError
from palbert.reporting import page
from palbert.reporting.page import plot, plots_note, render


def draw(text: str, *, name: str = "") -> str:
    return f"<svg>{text}{name}</svg>"


def test_a_plot_is_markup_with_its_caption() -> None:
    (found,) = plot("A caption", draw, "a", name="b")
    assert found.caption == "A caption" and found.svg == Markup("<svg>ab</svg>") and isinstance(found.svg, Markup)


def test_there_is_no_plot_without_matplotlib() -> None:
    def fail() -> str:
        raise MissingExtraError("Plots need", package="matplotlib", extra="plots")

    assert plot("A caption", fail) == []


@pytest.mark.usefixtures("no_plots")
def test_the_note_says_how_to_get_plots() -> None:
    assert "pip install 'palbert[plots]'" in plots_note()


def test_there_is_no_note_if_plots_can_be_drawn() -> None:
    pytest.importorskip("matplotlib")
    assert plots_note() == ""


@pytest.fixture
def template(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the package's templates by one of the test."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "t.j2").write_text("{{ text }} {{ svg }} {{ 3 | plural('row') }} {{ 0.5 | percent }}")
    monkeypatch.setattr(page, "__file__", str(tmp_path / "page.py"))


@pytest.mark.usefixtures("template")
def test_text_is_escaped_and_markup_is_kept() -> None:
    assert render("t.j2", text="<b>", svg=Markup("<svg/>")) == "&lt;b&gt; <svg/> 3 rows 50.0\u202f%"


@pytest.mark.usefixtures("template")
def test_a_value_that_is_not_given_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'svg' is undefined"):
        render("t.j2", text="a")
