"""What the documents show of real ranks runs as it is pasted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.documents.document import PAGES, ROOT, Reader, blocks

PAGES_WITH_RANKS = [page for page in PAGES if any(block.starts_ranks for block in blocks(page))]


@pytest.mark.mpi
@pytest.mark.parametrize("page", PAGES_WITH_RANKS, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_sample_of_a_page_runs_as_it_is_pasted(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reader = Reader(tmp_path)
    for block in blocks(page):
        reader.paste(block)
