"""What mypy and editors are told of names that are put together at import is what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.documents.public_stubs import PACKAGE, stubs

STUBS = stubs()


@pytest.mark.parametrize("path", STUBS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_stub_says_what_the_module_offers(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == STUBS[path], "`make stubs` writes it anew"
