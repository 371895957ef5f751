"""Fixtures of the tests of the page: Chromium, a service that answers by rule, and the page opened on it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.pages.fake_service import FakeService, served

CHROMIUM = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
PATIENCE = 20_000
"""Milliseconds that a test waits for what must appear; other tests share the machine."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start Chromium; for one module only, as Playwright keeps an event loop that other tests must not find."""
    api = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    api.expect.set_options(timeout=PATIENCE)
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield chromium
        chromium.close()


@pytest.fixture
def service() -> FakeService:
    """Return a service that is open, quick and healthy."""
    return FakeService()


@pytest.fixture
def open_page(browser: Any, service: FakeService) -> Iterator[Callable[..., Any]]:
    """Give a function that opens the page of the service; no request may leave it, and no script may fail."""
    with ExitStack() as stack:
        address = stack.enter_context(served(service.app()))
        strangers: list[str] = []
        failures: list[str] = []

        def open_it(*, ready: bool = True, **settings: Any) -> Any:
            context = browser.new_context(**settings)
            stack.callback(context.close)
            context.set_default_timeout(PATIENCE)
            page = context.new_page()
            page.on("request", lambda request: note_stranger(request.url))
            page.on("pageerror", lambda error: failures.append(str(error)))
            page.goto(address)
            if ready:
                page.locator("html[data-ready]").wait_for()
            return page

        def note_stranger(url: str) -> None:
            if urlsplit(url).scheme not in ("data", "blob") and not url.startswith(f"{address}/"):
                strangers.append(url)

        yield open_it
        assert strangers == []
        assert failures == []
