"""The page in Chromium for everybody: keyboards, screen readers, narrow screens, dark rooms, and less motion."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from playwright.sync_api import Page, expect
from tests.pages.fake_service import FakeService, problem

OpenPage = Callable[..., Page]
TABLE = b"id,review,a column with a rather long name\n1,a good film that is remembered,x\n2,a bad film,y\n"
NAMED = {
    *("button", "textbox", "checkbox", "radio", "combobox", "spinbutton", "link", "meter", "progressbar", "article"),
    *("group", "region", "dialog", "navigation", "table", "searchbox", "slider"),
}
"""Roles that need a name, to be told apart by people who only hear them."""


def fill_everything(page: Page, service: FakeService) -> None:
    """Bring the page into a state in which most of what it has is shown."""
    page.get_by_text("Two texts", exact=True).click()
    page.locator("textarea.first").first.fill("red good unkind")
    page.locator("textarea.second").first.fill("red bad averyveryverylongwordthatdoesnotendwherethescreenends" * 2)
    page.locator(".card").nth(1).get_by_role("button", name="Explain exactly").click()
    expect(page.locator(".partners").first).to_be_visible()
    page.get_by_role("button", name="Compare with another text").click()
    page.locator("textarea.first").nth(1).fill("red green")
    page.locator("textarea.second").nth(1).fill("red")
    expect(page.locator(".change.more").first).to_be_visible()
    page.locator(".more summary").first.click()
    page.locator("#file").set_input_files({"name": "reviews.csv", "mimeType": "text/csv", "buffer": TABLE})
    page.get_by_role("button", name="Answer all 2 rows").click()
    expect(page.locator("#progress-text")).to_contain_text("Done")
    service.refusals = [problem(500, "Something broke", "The model fell over.")]
    page.locator("textarea.first").nth(1).fill("red green blue")
    expect(page.get_by_text("The model fell over.")).to_be_visible()


def test_every_control_has_a_name_for_screen_readers(open_page: OpenPage, service: FakeService) -> None:
    service.names = ["demo", "other"]
    page = open_page()
    fill_everything(page, service)
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    named: dict[str, list[str]] = {}
    for node in nodes:
        role = node.get("role", {}).get("value")
        if not node["ignored"] and role in NAMED:
            named.setdefault(role, []).append(node.get("name", {}).get("value", ""))
    nameless = {role: sum(not name.strip() for name in names) for role, names in named.items()}
    folded = page.locator("details:visible").count()  # they are groups that their first line, a button, names
    assert {role: count for role, count in nameless.items() if count} == {"group": folded}
    assert {"button", "textbox", "checkbox", "radio", "combobox", "spinbutton", "link", "meter", "progressbar"} <= set(
        named
    )
    headings = [node for node in nodes if node.get("role", {}).get("value") == "heading" and not node["ignored"]]
    assert all(node["name"]["value"] for node in headings)


def test_everything_can_be_done_with_the_keyboard(open_page: OpenPage, service: FakeService) -> None:
    page = open_page()
    visited = tab_through(page)
    for wanted in ("Skip to the text", "API", "One text", "mood", "themes", "Compare", "words that led", "at least"):
        assert any(wanted in name for name in visited), wanted
    assert any("A good film." in name for name in visited) and any("file" in name for name in visited)
    page.locator("body").press("Tab")
    page.keyboard.press("Enter")  # the link to the text
    page.keyboard.type("a good film")
    expect(page.get_by_role("article", name="Answer of mood").get_by_role("heading")).to_have_text("positive")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row", name="good +1.000")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("integrated gradients")).to_be_visible()


def tab_through(page: Page) -> list[str]:
    """Press Tab from the top until the page is left; return the names on the way, each with a visible focus."""
    names: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        found: Any = page.evaluate(
            """() => {
              const place = document.activeElement;
              if (!place || place === document.body) return null;
              const rings = [];
              for (let each = place, level = 0; each && level < 3; each = each.parentElement, level += 1) {
                const style = getComputedStyle(each);
                rings.push(style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0);
              }
              const neighbour = place.parentElement.querySelector(".button");
              const ring = neighbour && getComputedStyle(neighbour).outlineStyle !== "none";
              const label = place.labels?.[0]?.textContent ?? "";
              return [label + place.textContent + (place.id ?? ""), rings.some(Boolean) || Boolean(ring)];
            }"""
        )
        if found is None:
            return names
        name, visible = found
        assert visible, f"the focus on {name!r} cannot be seen"
        names.append(re.sub(r"\s+", " ", name))
    raise AssertionError(f"the focus never leaves the page: {names}")


@pytest.mark.parametrize("width", [320, 768])
def test_narrow_screens_never_scroll_sideways(open_page: OpenPage, service: FakeService, width: int) -> None:
    page = open_page(viewport={"width": width, "height": 640})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    fill_everything(page, service)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_long_words_and_names_never_scroll_sideways(open_page: OpenPage, service: FakeService) -> None:
    def width() -> int:
        return int(page.evaluate("() => document.documentElement.scrollWidth"))

    word, url = "x" * 120, "https://example.org/" + "y" * 200
    service.names, mood = [f"run-{word}", "other"], service.tasks["mood"]
    service.tasks = {**service.tasks, f"task_{word}": {**mood, "classes": [word, "positive"]}}
    page = open_page(viewport={"width": 360, "height": 640})
    assert width() <= 360
    for text in (url, word, "good" * 30 + " " + "bad" * 40):
        page.locator("textarea.first").first.fill(text)
        expect(page.locator(".words").first).to_have_text(text, use_inner_text=True)
        expect(page.get_by_text("Most for it").first).to_be_visible()
        assert width() <= 360, text
    page.locator(".more summary").first.click()
    assert width() <= 360
    for extra in ("", ",more"):  # one is answered, the other refused
        table = f"{word},{word}2\n{url},{word}{extra}\n{word},1\n".encode()
        page.locator("#file").set_input_files({"name": f"{word}{extra}.csv", "mimeType": "text/csv", "buffer": table})
        expect(page.locator("#table-facts")).to_contain_text(f"{word}{extra}.csv: 2 rows, 2 columns")
        assert width() <= 360, extra
        if not extra:
            page.get_by_role("button", name="Answer all 2 rows").click()
            expect(page.locator("#progress-text")).to_contain_text("Done")
            assert width() <= 360
    expect(page.locator("#file-problem")).to_contain_text("expected 2 cells, found 3")


@pytest.mark.parametrize("width", [700, 1100])
def test_words_that_fit_are_not_broken(open_page: OpenPage, service: FakeService, width: int) -> None:
    examples = [f"Example {number} of a film that was better than expected." for number in range(5)]
    service.tasks = {"mood": {**service.tasks["mood"], "examples": examples}}
    page = open_page(viewport={"width": width, "height": 640})
    label = page.locator("#examples-label").bounding_box()
    assert label and label["height"] < 30


CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const luminance = (colour) => {
    const [r, g, b] = colour.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (place) => {
    const layers = [];
    for (let each = place; each; each = each.parentElement) {
      layers.unshift(rgba(getComputedStyle(each).backgroundColor));
    }
    return layers.reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const place = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || !place.checkVisibility() || place.closest(":disabled, noscript, template")) continue;
    const [below, ink] = [ground(place), rgba(getComputedStyle(place).color)];
    const [one, two] = [luminance(over(ink, below)), luminance(below)];
    found.push([(Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05), text.slice(0, 40)]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out_from_its_ground(open_page: OpenPage, service: FakeService, scheme: str) -> None:
    page = open_page(color_scheme=scheme)
    fill_everything(page, service)
    page.locator("textarea.first").nth(0).fill("good bad unkind")
    expect(page.locator(".word.against").first).to_be_visible()
    page.wait_for_timeout(500)
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) > 60
    assert [(round(ratio, 2), text) for ratio, text in contrasts if ratio < 4.5] == []
    dark = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(255, 255, 255)") == (scheme == "light")


def test_nothing_moves_for_people_who_want_less_motion(open_page: OpenPage) -> None:
    for wish, moves in (("reduce", False), ("no-preference", True)):
        page = open_page(reduced_motion=wish)
        page.locator("textarea.first").first.fill("a good film")
        expect(page.locator(".fill").first).to_be_attached()
        duration = page.locator(".fill").first.evaluate("(place) => getComputedStyle(place).transition")
        assert ("0.18s" in duration) == moves


def test_the_answers_are_said_once_they_have_settled(open_page: OpenPage) -> None:
    page = open_page()
    said = page.locator("#said")
    expect(said).to_have_attribute("aria-live", "polite")
    page.locator("textarea.first").first.press_sequentially("a good film, and a kind one", delay=30)
    expect(said).to_have_text("mood: positive; themes: film")
    expect(page.locator(".cards").first).not_to_have_attribute("aria-live", re.compile("."))
