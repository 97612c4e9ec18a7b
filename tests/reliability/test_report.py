"""The tables of the page are those of the figures, and a table without new figures stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.report import BLOCKS, CLAIMS, rewritten

PAGE = "\n".join(f"text {place}\n{block.begin}\nold {place}\n{block.end}" for place, block in enumerate(BLOCKS))
DEATH = {"event": "kill -9 of a rank", "hosts": 1, "code": 137, "said": "rank 1 | died", "date": "2026-11-22"}


def test_each_figure_is_in_its_table_and_the_others_stay() -> None:
    entries = [
        DEATH | {"mpi": "mpich", "seconds": 0.2},
        DEATH | {"mpi": "mpich", "seconds": 0.3},
        DEATH | {"mpi": "mpich", "seconds": 1.1},
        DEATH | {"mpi": "openmpi", "seconds": 2.0, "code": -9, "said": "", "gone_after": 0.4},
    ]
    lines = rewritten(PAGE, entries).splitlines()
    row = "| kill -9 of a rank | 2.0 s | 0.3 s, at most 1.1 s in 3 jobs | 137 | `rank 1  died` |"
    assert lines.index(BLOCKS[1].begin) < lines.index(row) < lines.index(BLOCKS[1].end)
    assert lines[:4] == ["text 0", BLOCKS[0].begin, "old 0", BLOCKS[0].end]
    assert lines[-4:] == ["text 2", BLOCKS[2].begin, "old 2", BLOCKS[2].end]
    assert "After the launcher of these 4 jobs none of their processes lived longer than 0.4 s." in lines
    assert "old 1" not in lines


def test_jobs_on_several_hosts_have_a_table_of_their_own() -> None:
    text = rewritten(PAGE, [DEATH | {"mpi": "openmpi", "seconds": 3.0, "hosts": 4}])
    assert "| kill -9 of a rank, 4 hosts | 3.0 s | - | 137 |" in text.partition(BLOCKS[2].begin)[2]


def test_counts_of_one_claim_are_summed_and_rows_of_other_claims_stay() -> None:
    entries = [{"claim": f"kill: {mpi}", "figures": {"kills": 3}, "date": "2026-11-22"} for mpi in ("mpich", "openmpi")]
    kept, replaced = "| flip | bits | 7 flips | 2026-11-21 |", "| kill | MPICH | 1 kills | 2026-11-21 |"
    text = rewritten(PAGE.replace("old 0", f"{CLAIMS}\n|---|---|---|---|\n{kept}\n{replaced}"), entries)
    table = text.partition(BLOCKS[0].end)[0].splitlines()[-4:]
    assert table == [CLAIMS, "|---|---|---|---|", kept, "| kill | MPICH; Open MPI | 6 kills | 2026-11-22 |"]
    assert rewritten(text, entries) == text


def test_the_page_has_a_place_for_each_table() -> None:
    page = (Path(__file__).parents[2] / "docs/background/reliability.md").read_text(encoding="utf-8")
    assert all(page.count(block.begin) == page.count(block.end) == 1 for block in BLOCKS)


def test_a_page_without_a_place_for_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match=f"no {BLOCKS[0].begin}"):
        rewritten("text", [{"claim": "kill: mpich", "figures": {"kills": 3}, "date": "2026-11-22"}])
