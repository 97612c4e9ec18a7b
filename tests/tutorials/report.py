"""Make the tables of a page from the results of the tutorials: ``python -m tests.tutorials.report RESULTS PAGE``.

A line with ``listings`` is of the table of the tutorials, which is made anew; one with a ``sample`` is of that of the
samples, whose rows stay until newer results replace them. A table of which RESULTS has no line stays as it is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.tutorials import sample_table
from tests.tutorials.corrections import CORRECTIONS
from tests.tutorials.record import BRANDS

Entries = Sequence[dict[str, Any]]
_FROM, _TO = "As run on ", " to "
_ABOVE_ROWS = 3


class Block(NamedTuple):
    """A table of the page: the comments around it, which results are in it, what makes it of them.

    ``completed`` adds what the rows of the table, of a date, tell of other runs.
    """

    begin: str
    end: str
    holds: Callable[[dict[str, Any]], bool]
    table: Callable[[Entries], list[str]]
    completed: Callable[[Entries, Iterable[str], str], Entries]


def tutorials(entries: Entries) -> list[str]:
    """Return the table of the listings: a row for each claim, in the order of the documents' names.

    Two documents may have been followed at the same time, so their results may lie among each other.
    """
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in entries:
        rows.setdefault((entry["document"], entry["shows"]), []).append(entry)
    lines = [
        f"| {document} | {', '.join(found[0]['listings']) or 'left to the reader'} | {_claim(shows)} "
        f"| {_ranks(found)} | {_outcomes(found)} | {_mended(document, found[0]['listings'])} |"
        for (document, shows), found in sorted(rows.items(), key=lambda row: row[0][0])
    ]
    head = f"| document | listings | what is seen | ranks | {' | '.join(BRANDS.values())} | mended |"
    return [head, "|---|---|---|---|---|---|---|", *lines]


def _claim(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")


def _ranks(entries: Entries) -> str:
    return str(max(entry["ranks"] for entry in entries) or 1)


def _outcomes(entries: Entries) -> str:
    """Return a cell for each MPI library: one that failed anywhere has failed."""
    cells = []
    for mpi in BRANDS:
        found = {entry["outcome"] for entry in entries if entry["mpi"] == mpi}
        cells.append("-" if not found else "failed" if "failed" in found else ", ".join(sorted(found)))
    return " | ".join(cells)


def _mended(document: str, names: Sequence[str]) -> str:
    paths = {f"{document}/{name}" for name in names}
    return "; ".join(dict.fromkeys(one.reason for one in CORRECTIONS if one.listing in paths))


BLOCKS = (
    Block(
        "<!-- tutorials: written by make from-mindspore -->",
        "<!-- end of tutorials -->",
        lambda entry: "listings" in entry,
        tutorials,
        lambda entries, rows, date: entries,
    ),
    Block(
        "<!-- samples: written by make from-mindspore -->",
        "<!-- end of samples -->",
        lambda entry: "sample" in entry,
        sample_table.table,
        sample_table.completed,
    ),
)


def rewritten(page: str, entries: Entries) -> str:
    """Return ``page`` with the tables that ``entries`` have results for; ValueError where it has no place for one."""
    for block in BLOCKS:
        chosen = [entry for entry in entries if block.holds(entry)]
        if chosen:
            if block.begin not in page or block.end not in page:
                raise ValueError(f"the page has no {block.begin} or no {block.end}: put both where the table belongs")
            before, _, rest = page.partition(block.begin)
            old, _, after = rest.partition(block.end)
            chosen = _completed(block, chosen, old)
            dates = sorted({date for entry in chosen for date in entry["date"].split(_TO)})
            head = f"{_FROM}{_TO.join(sorted({dates[0], dates[-1]}))}."
            page = "\n".join([f"{before}{block.begin}", head, "", *block.table(chosen), f"{block.end}{after}"])
    return page


def _completed(block: Block, entries: Entries, old: str) -> Entries:
    head, *lines = old.strip().splitlines() or [""]
    return block.completed(entries, lines[_ABOVE_ROWS:], head.removeprefix(_FROM).removesuffix("."))


def main() -> None:
    source, page = map(Path, sys.argv[1:])
    entries = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    page.write_text(rewritten(page.read_text(encoding="utf-8"), entries), encoding="utf-8")


if __name__ == "__main__":
    main()
