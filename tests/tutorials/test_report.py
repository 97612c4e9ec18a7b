"""The tables of the page are those of the results, and a table without new results stays."""

from __future__ import annotations

import pytest

from tests.tutorials.report import BLOCKS, rewritten

PAGE = "\n".join(f"text {place}\n{block.begin}\nold {place}\n{block.end}" for place, block in enumerate(BLOCKS))
RUN = {"document": "one", "listings": ["init"], "shows": "test_it_starts", "ranks": 2, "date": "2026-11-22"}
SAMPLE = {"sample": "two", "command": "bash run.sh", "shows": "loss falls", "date": "2026-11-22", "mpi": "openmpi"}


def test_a_claim_has_one_row_and_each_library_its_column() -> None:
    entries = [RUN | {"mpi": "openmpi", "outcome": "passed"}, RUN | {"mpi": "mpich", "outcome": "failed"}]
    text = rewritten(PAGE, entries)
    assert "| one | init | it starts | 2 | passed | failed |  |" in text.splitlines()
    assert "old 0" not in text
    assert "old 1" in text
    assert rewritten(text, entries) == text


def test_the_branches_of_a_sample_are_told_together() -> None:
    entries = [SAMPLE | {"branch": name, "outcome": "passed"} for name in ("r1.3", "r2.0")]
    row = "| two | `bash run.sh` | r1.3, r2.0 | loss falls | passed | - |"
    assert row in rewritten(PAGE, entries).partition(BLOCKS[1].begin)[2].splitlines()


def test_a_page_without_a_place_for_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match=f"no {BLOCKS[0].begin}"):
        rewritten("text", [RUN | {"mpi": "mpich", "outcome": "passed"}])
