"""The tables of the page are those of the results, and a table without new results stays."""

from __future__ import annotations

import pytest

from tests.tutorials.report import BLOCKS, rewritten
from tests.tutorials.sample_runs import RUNS

PAGE = "\n".join(f"text {place}\n{block.begin}\nold {place}\n{block.end}" for place, block in enumerate(BLOCKS))
RUN = {"document": "one", "listings": ["init"], "shows": "test_it_starts", "ranks": 2, "date": "2026-11-22"}
FIRST, SECOND = RUNS[:2]
SAMPLE = {
    "sample": FIRST.sample,
    "command": FIRST.command,
    "shows": FIRST.shows,
    "date": "2026-11-22",
    "mpi": "openmpi",
}


def test_a_claim_has_one_row_and_each_library_its_column() -> None:
    entries = [RUN | {"mpi": "openmpi", "outcome": "passed"}, RUN | {"mpi": "mpich", "outcome": "failed"}]
    text = rewritten(PAGE, entries)
    assert "| one | init | it starts | 2 | passed | failed |  |" in text.splitlines()
    assert "old 0" not in text
    assert "old 1" in text
    assert rewritten(text, entries) == text


def test_the_claims_of_a_document_lie_together_in_the_order_in_which_they_were_seen() -> None:
    seen = [("two", "b"), ("one", "y"), ("two", "a"), ("one", "x")]
    entries = [
        RUN | {"document": document, "shows": shows, "mpi": "openmpi", "outcome": "passed"} for document, shows in seen
    ]
    lines = [line for line in rewritten(PAGE, entries).splitlines() if "| init |" in line]
    assert [(line.split(" | ")[0], line.split(" | ")[2]) for line in lines] == [
        ("| one", "y"),
        ("| one", "x"),
        ("| two", "b"),
        ("| two", "a"),
    ]


def result(branch: str, outcome: str = "passed", **others: str) -> dict[str, str]:
    return SAMPLE | {"branch": branch, "outcome": outcome} | others


def rows(page: str) -> list[str]:
    """The rows of the table of samples, from its branches on."""
    table = page.partition(BLOCKS[1].begin)[2].partition(BLOCKS[1].end)[0].strip().splitlines()[4:]
    return [row.partition(f"`{FIRST.command}` ")[2] for row in table]


def test_the_branches_of_a_sample_are_told_together() -> None:
    entries = [result(name) for name in ("r1.10", "r1.3", "r2.0")]
    assert rows(rewritten(PAGE, entries)) == [f"| r1.3, r1.10, r2.0 | {FIRST.shows} | passed | - |"]


def test_a_library_that_has_not_passed_on_all_branches_says_on_which() -> None:
    entries = [result("r1.3"), result("r2.0"), result("r2.0", mpi="mpich"), result("r1.5", "failed")]
    told = "failed (r1.5); passed (r1.3, r2.0)"
    assert rows(rewritten(PAGE, entries)) == [f"| r1.3, r1.5, r2.0 | {FIRST.shows} | {told} | passed (r2.0) |"]


def test_of_a_run_the_last_result_counts() -> None:
    entries = [result("r1.3", "failed"), result("r1.3")]
    assert rows(rewritten(PAGE, entries)) == [f"| r1.3 | {FIRST.shows} | passed | - |"]


def test_results_of_some_samples_complete_the_rows_that_are_there() -> None:
    later = {"date": "2026-11-24"}
    first = [result("r1.3"), result("r1.5", "failed"), result("r1.3", mpi="mpich")]
    then = [result("r1.5", **later), result("r1.3", shows=SECOND.shows, **later)]
    page = rewritten(rewritten(PAGE, first), then)
    assert rows(page) == [
        f"| r1.3, r1.5 | {FIRST.shows} | passed | passed (r1.3) |",
        f"| r1.3 | {SECOND.shows} | passed | - |",
    ]
    assert "As run on 2026-11-22 to 2026-11-24." in page
    assert rewritten(page, [*first, *then]) == page


def test_a_row_whose_results_are_all_newer_has_their_date() -> None:
    page = rewritten(rewritten(PAGE, [result("r1.3")]), [result("r1.3", date="2026-11-24")])
    assert "As run on 2026-11-24." in page


def test_a_run_that_is_no_longer_made_leaves_the_table() -> None:
    old = rewritten(PAGE, [result("r1.3")]).replace(FIRST.shows, "nothing")
    page = rewritten(old, [result("r1.5")])
    assert rows(page) == [f"| r1.5 | {FIRST.shows} | passed | - |"]


def test_a_page_without_a_place_for_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match=f"no {BLOCKS[0].begin}"):
        rewritten("text", [RUN | {"mpi": "mpich", "outcome": "passed"}])
