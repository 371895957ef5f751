"""Keys on the page, in Chromium: asked for, kept for the tab, and never seen by the report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
pytest.importorskip("starlette", reason="needs Starlette: pip install 'palbert[serve]'")

from playwright.sync_api import Locator, Page, expect
from tests.pages.fake_service import FakeService
from tests.pages.tables import choose

OpenPage = Callable[..., Page]


def first(page: Page) -> Locator:
    """Return the field of the first text."""
    return page.locator("textarea.first").first


def card(page: Page, task: str) -> Locator:
    """Return the answer of a task."""
    return page.locator(".side").get_by_role("article", name=f"Answer of {task}")


def test_a_key_is_asked_for_and_kept_for_the_tab(open_page: OpenPage, service: FakeService) -> None:
    service.key = "pal_right"
    page = open_page(ready=False)
    dialog = page.get_by_role("dialog", name="A key is needed")
    expect(dialog).to_contain_text("This server answers only with a key.")
    field = dialog.get_by_label("API key")
    expect(field).to_be_focused()
    field.fill("pal_wrong")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("The key was not accepted.")
    field.fill("pal_right")
    dialog.get_by_role("button", name="Use the key").click()
    expect(dialog).to_be_hidden()
    first(page).fill("a good film")
    expect(card(page, "mood")).to_be_visible()
    assert service.headers[-1]["authorization"] == "Bearer pal_right"
    page.reload()
    page.locator("html[data-ready]").wait_for()
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Forget the key").click()
    first(page).fill("a good film")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    alert = page.get_by_role("alert").filter(has_text="No key")
    first(page).fill("a good film, again")  # the dialog does not open at each letter
    expect(alert).to_be_visible()
    expect(dialog).to_be_hidden()
    alert.get_by_role("button", name="Enter a key").click()
    field.fill("pal_right")
    page.keyboard.press("Enter")
    expect(card(page, "mood")).to_be_visible()


def test_a_page_without_key_says_so_and_asks_again(open_page: OpenPage, service: FakeService) -> None:
    service.key = "pal_right"
    page = open_page(ready=False)
    dialog = page.get_by_role("dialog", name="A key is needed")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    side, file = page.locator(".side-problem").first, page.locator("#file-problem")
    expect(side).to_contain_text("This server answers only with a key.")
    expect(page.get_by_text("Answers appear here as you type.")).to_be_hidden()
    expect(file).to_be_empty()  # nothing is asked there yet
    first(page).press_sequentially("a good film")
    page.locator("#file").set_input_files({"name": "a.csv", "mimeType": "text/csv", "buffer": b"text\na bad film\n"})
    expect(file).to_contain_text("This server answers only with a key.")
    expect(page.locator("#table")).to_be_hidden()
    side.get_by_role("button", name="Enter a key").click()
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    file.get_by_role("button", name="Enter a key").click()
    page.get_by_label("API key").fill("pal_right")
    page.keyboard.press("Enter")
    expect(card(page, "mood").get_by_role("heading")).to_have_text("positive")
    expect(page.locator("#table-facts")).to_have_text("a.csv: 1 row, 1 column")
    expect(file).to_be_empty()


def test_a_table_can_go_on_after_the_dialog_was_cancelled(open_page: OpenPage, service: FakeService) -> None:
    page = open_page()
    choose(page, "text\na bad film\n")
    service.key = "pal_right"
    page.get_by_role("button", name="Answer the row").click()
    expect(page.get_by_role("dialog", name="A key is needed")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#progress-text")).to_have_text("Stopped: 0 of 1 row.")
    page.locator("#file-problem").get_by_role("button", name="Enter a key").click()
    page.get_by_label("API key").fill("pal_right")
    page.keyboard.press("Enter")
    expect(page.locator("#progress-text")).to_have_text("Done: 1 of 1 row.")


def test_a_page_that_cannot_start_says_why_and_tries_again(open_page: OpenPage) -> None:
    page = open_page()
    page.route("**/v1/tasks", lambda route: route.abort())
    page.reload()
    first(page).fill("a good film")
    alert = page.locator(".side-problem")
    expect(alert).to_contain_text("The server does not answer")
    page.unroute("**/v1/tasks")
    alert.get_by_role("button", name="Try again").click()
    expect(card(page, "mood").get_by_role("heading")).to_have_text("positive")


REPORT = """<!doctype html><html><head><title>Report</title><style>h1 { color: rgb(1, 2, 3) }</style></head>
<body><h1>How good it is</h1><p id="found"></p><script>
let found; try { found = "kept: " + sessionStorage.getItem("palbert-key"); } catch (error) { found = error.name; }
document.getElementById("found").textContent = found;
</script></body></html>"""


@pytest.mark.parametrize("key", [None, "pal_right"])
def test_the_report_is_one_click_away_and_kept_apart(
    open_page: OpenPage, service: FakeService, tmp_path: Path, key: str | None
) -> None:
    path = tmp_path / "report.html"
    path.write_text(REPORT, "utf-8")
    service.reports["demo"] = path
    page = open_page()
    if key:
        service.key = key
        first(page).fill("a good film")
        page.get_by_label("API key").fill(key)
        page.keyboard.press("Enter")
        expect(card(page, "mood")).to_be_visible()
    with page.expect_popup() as popup:
        page.get_by_role("link", name="Report").click()
    heading = popup.value.get_by_role("heading", name="How good it is")
    expect(heading).to_have_css("color", "rgb(1, 2, 3)")
    expect(popup.value.locator("#found")).to_have_text("SecurityError")  # it does not see the key
