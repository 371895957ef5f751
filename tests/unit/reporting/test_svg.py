"""SVG: drawings that take their colours from the page, share nothing, and can stand alone."""

from __future__ import annotations

import re
import sys
import threading
from xml.etree import ElementTree

import pytest

from palbert.reporting.svg import INK, SERIES, drawing, inline, shorten, standalone

matplotlib = pytest.importorskip("matplotlib")


def draw(label: str = "A line") -> str:
    with drawing(width=200, height=100, label=label) as picture:
        axes = picture.figure.subplots()
        axes.plot([0, 1, 2], [0, 1, 0], "o-", color=SERIES[0])
        axes.set_xlabel("step", color=INK)
    return picture.svg


def test_a_drawing_has_the_given_size_and_label() -> None:
    root = ElementTree.fromstring(draw('A "line" & more'))
    assert root.attrib["viewBox"] == "0 0 200 100"
    assert root.attrib["aria-label"] == 'A "line" & more'


def test_placeholder_colours_become_variables() -> None:
    assert "var(--series-1)" in draw() and "var(--ink)" in draw()
    assert "#0b0b" not in draw()


def test_a_standalone_drawing_has_the_colours_of_the_light_theme() -> None:
    alone = standalone(draw())
    root = ElementTree.fromstring(alone)
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and (root.get("width"), root.get("height")) == ("200", "100")
    assert "var(" not in alone and "background: #ffffff" in alone
    assert len(set(re.findall(r"#[0-9a-f]{6}", alone))) > 2


def test_only_ids_that_are_referred_to_stay_and_they_get_unique_names() -> None:
    document = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 1 1">'
        '<defs><path id="m" d="M 0.123456 1"/></defs><g id="unused"><use xlink:href="#m" x="1.004"/></g>'
        "<style>*{}</style></svg>"
    )
    first, second = (ElementTree.fromstring(inline(document, label=label)) for label in ("a", "b"))
    (path,) = first.iter("path")
    (use,) = first.iter("use")
    assert use.get("href") == f"#{path.get('id')}" and [element.get("id") for element in first.iter("g")] == [None]
    assert path.get("d") == "M 0.12 1" and use.get("x") == "1"
    assert path.get("id") != next(second.iter("path")).get("id")
    assert list(first.iter("style")) == []


def test_equal_markers_share_one_style() -> None:
    root = ElementTree.fromstring(draw())
    groups = [group for group in root.iter("g") if sum(child.tag == "use" for child in group) == 3]
    assert len(groups) == 1 and groups[0].get("style")
    assert all(child.get("style") is None for child in groups[0])


def test_long_names_are_cut_and_control_characters_replaced() -> None:
    assert shorten("very negative") == "very negative"
    assert shorten("x" * 50, length=10) == "x" * 9 + "…"
    assert shorten(" a\x00\nb ") == "a b"


def test_drawing_does_not_change_the_settings_of_matplotlib() -> None:
    before = dict(matplotlib.rcParams)
    with matplotlib.rc_context({"font.size": 33.0}):
        changed = draw()
        assert matplotlib.rcParams["font.size"] == 33.0
    assert changed == draw()  # the user's settings do not reach the drawing
    assert dict(matplotlib.rcParams) == before


def test_drawing_does_not_import_pyplot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # importing it raises
    assert draw()


def test_threads_draw_the_same_as_one_alone() -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(draw())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [draw()] * 4
