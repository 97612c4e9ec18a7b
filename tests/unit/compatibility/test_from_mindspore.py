"""Each name that MindSpore's users write is here, and the page that says so is what the names are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.documents.from_mindspore import found, rewritten
from tests.conformance.probes.mindspore_names import DIFFERENCES, paths

PAGE = Path(__file__).parents[3] / "docs/lookup/from_mindspore.md"


@pytest.mark.parametrize("path", paths())
def test_each_name_of_mindspore_is_here(path: str) -> None:
    assert found(path) is not None


def test_differences_are_of_names_that_are_listed() -> None:
    assert set(DIFFERENCES) - set(paths()) == set()


def test_the_page_is_what_the_names_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    written_by = "python -m tests.conformance.documents.from_mindspore docs/lookup/from_mindspore.md"
    assert page == rewritten(page), f"run {written_by}"
