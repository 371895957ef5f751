"""The page of a real service in Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")

from tests.pages.conftest import PATIENCE, browser
from tests.serving.processes import serving

__all__ = ["browser"]


def test_the_page_shows_what_the_service_answers(browser: Any, run: Path) -> None:
    text = "A quiet little triumph."
    with serving(run) as server, server.client() as client:
        answer = client.post("/v1/predict", json={"task": "sst", "texts": [text]}).json()["results"][0]["sst"]
        context = browser.new_context()
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        strangers: list[str] = []
        failures: list[str] = []
        page.on("request", lambda request: strangers.append(request.url))
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.goto(server.url)
        page.locator("html[data-ready]").wait_for()
        page.locator("textarea.first").first.fill(text)
        card = page.get_by_role("article", name="Answer of sst")
        card.get_by_role("heading").get_by_text(answer["prediction"], exact=True).wait_for()
        bars = {
            meter.get_attribute("aria-label") or "": float(meter.get_attribute("aria-valuenow") or "nan")
            for meter in card.get_by_role("meter").all()
        }
        page.goto(f"{server.url}/report/mine")
        context.close()
    assert failures == []
    assert [url for url in strangers if urlsplit(url).netloc != urlsplit(server.url).netloc] == []
    percents = {name: 100 * share for name, share in answer["probabilities"].items()}
    assert len(bars) == 5 and bars == pytest.approx(percents, abs=0.06)
