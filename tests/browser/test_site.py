"""The site, opened as a reader would: the search finds, the reference tells, the pictures are whole."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.browser.chromium import opened, problem

SITE = Path(__file__).parents[2] / "build" / "site"


def _problem() -> str:
    """Return why the site cannot be opened here; nothing where it can."""
    return problem() or ("" if (SITE / "index.html").is_file() else "needs the site; make site builds it")


pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(_problem()), reason=_problem())]


class Silent(SimpleHTTPRequestHandler):
    """Gives the files of the site, and says nothing."""

    def log_message(self, *words: object) -> None:
        """Say nothing."""


@pytest.fixture
def page() -> Iterator[Any]:
    """The first page; an error in a script, and anything that is asked of others, fails the test."""
    with ThreadingHTTPServer(("localhost", 0), partial(Silent, directory=SITE)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://localhost:{server.server_port}/"
        with opened(address, lambda url: url.startswith(address)) as found:
            yield found
        server.shutdown()


def test_a_search_for_an_operator_leads_to_its_page(page: Any) -> None:
    page.click("button.search-button-field:visible, button.search-button:visible")
    page.fill("input[type=search]:visible", "BatchMatMul")
    page.press("input[type=search]:visible", "Enter")
    page.click("#search-results li a:has-text('ops.BatchMatMul')")
    assert page.inner_text("h1").startswith("mpiparallel.ops.BatchMatMul")
    assert "Examples" in page.inner_text("article")


def test_the_reference_is_a_few_clicks_away_and_says_what_an_operator_may_cut(page: Any) -> None:
    page.click("article a:has-text('mpiparallel.ops')")
    page.click("article a[title='mpiparallel.ops.MatMul']")
    assert "(m, k)" in page.inner_text("article")


@pytest.mark.parametrize(("title", "least"), [("Sharding in pictures", 6), ("Examples and files", 14)])
def test_every_picture_of_a_page_is_there_and_inside_the_page(page: Any, title: str, least: int) -> None:
    page.click(f"article a:has-text('{title}')")
    page.wait_for_selector("article img")
    page.wait_for_load_state()
    pictures = page.query_selector_all("article img")
    assert len(pictures) >= least
    width = page.viewport_size["width"]
    for picture in pictures:
        picture.scroll_into_view_if_needed()
        assert picture.evaluate("one => one.complete && one.naturalWidth") > 0, picture.get_attribute("src")
        box = picture.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
