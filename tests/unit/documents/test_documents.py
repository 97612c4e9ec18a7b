"""What the documents show runs as it is pasted; those that start real ranks are in ``tests/mpi/test_documents.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.documents.document import PAGES, ROOT, RUN, Reader, blocks

SILENT = ("text", "json")
SAMPLES = {str(page.relative_to(ROOT)): blocks(page) for page in PAGES}
ON_ONE_PROCESS = [
    page
    for page, found in SAMPLES.items()
    if any(block.is_run for block in found) and not any(block.starts_ranks for block in found)
]


@pytest.mark.parametrize("page", ON_ONE_PROCESS)
def test_each_sample_of_a_page_runs_as_it_is_pasted(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Reader(tmp_path).follow(ROOT / page)


@pytest.mark.parametrize("page", SAMPLES)
def test_each_block_says_its_language_and_is_run_or_says_why_not(page: str) -> None:
    assert [str(block) for block in SAMPLES[page] if block.language not in (*RUN, *SILENT)] == []
    reasons = [block for block in SAMPLES[page] if block.claim.startswith("not run")]
    assert [str(block) for block in reasons if len(block.reason.split()) < 3] == []
