"""A real browser for tests: Debian's chromium, driven by Playwright, without access to other hosts."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
REPLACED = ("htmx:sendAbort", "htmx:afterRequest")


@contextmanager
def chromium() -> Iterator[Any]:
    """Start the browser; skip the test if there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no chromium: apt-get install chromium, or set CHROMIUM to its path")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def page_of(browser: Any, address: str, **options: Any) -> Iterator[Any]:
    """Open a page that fails the test if it loads anything from another host, or if a script fails."""
    context = browser.new_context(**options)
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    # htmx also reports an error if a newer request replaces one in progress.
    page.on(
        "console",
        lambda message: (
            troubles.append(message.text)
            if message.type == "error" and not message.text.startswith(REPLACED)
            else None
        ),
    )
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((address, "data:", "blob:")) else troubles.append(request.url)
        ),
    )
    try:
        yield page
        assert not troubles, troubles
    finally:
        context.close()


def until(page: Any, true: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until a page shows something; its security policy forbids the functions of Playwright for that."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "the page did not change in time"
        page.wait_for_timeout(20)
