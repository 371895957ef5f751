"""Take the pictures of the service's page that the documentation shows, from a server that is running.

Start `palbert serve runs/demo` with a run of `palbert demo`, then: python tools/picture_page.py http://127.0.0.1:8000
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from playwright.sync_api import Page

IMAGES = Path(__file__).parents[1] / "docs" / "images"
LARGEST = 150 * 1024
"""Bytes of a picture."""
TEXT = "A slow film with a warm heart."
OTHER = "A slow film with a cold heart."
PAIR = ("A man plays a guitar.", "Someone makes music.")
TABLE = Path(__file__).parents[1] / "src" / "palbert" / "data" / "samples" / "sst-train.tsv"


def main() -> None:
    """Open the page once for each picture."""
    [address] = sys.argv[1:] or sys.exit(__doc__)
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, (show, scheme, height) in PICTURES.items():
            page = browser.new_page(viewport={"width": 1160, "height": height}, color_scheme=scheme)
            page.goto(address)
            page.locator("html[data-ready]").wait_for()
            show(page)
            page.wait_for_timeout(500)  # bars move
            path = IMAGES / f"serve-{name}.png"
            page.screenshot(path=path)
            page.close()
            size = path.stat().st_size
            print(f"{path.relative_to(IMAGES.parents[1])}: {size // 1024} KiB")
            if size > LARGEST:
                sys.exit(f"{path}: expected at most {LARGEST // 1024} KiB.")
        browser.close()


def show_comparison(page: Page) -> None:
    """Compare two texts, with the words that led to the answers."""
    page.locator("textarea.first").fill(TEXT)
    page.get_by_role("button", name="Compare with another text").click()
    page.locator("textarea.first").nth(1).fill(OTHER)
    page.locator(".change.more, .change.less").first.wait_for()


def show_pair(page: Page) -> None:
    """Show which words of a pair belong together."""
    page.get_by_text("Two texts", exact=True).click()
    page.get_by_role("checkbox", name="quora").uncheck()
    page.locator("textarea.first").fill(PAIR[0])
    page.locator("textarea.second").fill(PAIR[1])
    page.get_by_role("button", name="Explain exactly").click()
    page.get_by_role("button", name="guitar", exact=True).hover()
    page.locator(".word.partner").first.wait_for()


def show_table(page: Page) -> None:
    """Answer a table, half-way."""
    page.locator("#file").set_input_files(TABLE)
    page.get_by_role("button", name="Answer all").click()
    page.get_by_text("about", exact=False).last.wait_for()
    page.locator("#file-heading").evaluate("(heading) => heading.scrollIntoView()")


PICTURES: dict[str, tuple[Callable[[Page], None], Literal["light", "dark"], int]] = {
    "comparison": (show_comparison, "light", 860),
    "pair": (show_pair, "dark", 700),
    "table": (show_table, "light", 640),
}

if __name__ == "__main__":
    main()
