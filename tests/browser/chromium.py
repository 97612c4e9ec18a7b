"""The Chromium of the system, headless, in which the tests open pages."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def problem() -> str:
    """Return why no page can be opened here; nothing where one can."""
    if find_spec("playwright") is None:
        return "needs Playwright; make test-browser installs it"
    return "" if any(map(shutil.which, BROWSERS)) else "needs Chromium; make test-browser installs it on Debian"


@contextmanager
def opened(address: str, may_ask: Callable[[str], bool]) -> Iterator[Any]:
    """Give the page at ``address``; an error in a script fails the test, and so does asking for what it may not."""
    from playwright.sync_api import sync_playwright

    wrong: list[str] = []
    with sync_playwright() as driver:
        executable = next(path for path in map(shutil.which, BROWSERS) if path)
        browser = driver.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: may_ask(request.url) or wrong.append(request.url))
        page.goto(address)
        yield page
        browser.close()
    assert wrong == []
