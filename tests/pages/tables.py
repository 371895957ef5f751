"""What tests of tables on the page do: give it a file, have it answered, and take it back."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

from playwright.sync_api import Page, expect


def choose(page: Page, content: str | bytes, name: str = "reviews.csv") -> None:
    """Give the page a file, and wait until it has read it."""
    data = content if isinstance(content, bytes) else content.encode()
    page.locator("#file").set_input_files({"name": name, "mimeType": "text/csv", "buffer": data})
    expect(page.locator("#table-facts")).to_contain_text(f"{name}: ")


def answer_all(page: Page) -> None:
    page.get_by_role("button", name=re.compile("^Answer ")).click()
    expect(page.locator("#progress-text")).to_contain_text("Done")


def downloaded(page: Page) -> tuple[str, bytes]:
    """Return the name and content of the table that comes back."""
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def rows_of(content: bytes, separator: str = ",") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), delimiter=separator))


def written(rows: list[list[str]], separator: str = ",", end: str = "\r\n") -> str:
    stream = io.StringIO(newline="")
    if end == "\r":  # csv leaves line feeds bare before such ends
        csv.writer(stream, delimiter=separator, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(rows)
    else:
        csv.writer(stream, delimiter=separator, lineterminator=end).writerows(rows)
    return stream.getvalue()
