"""Make the tables of a page from the results of the tutorials: ``python -m tests.tutorials.report RESULTS PAGE``.

A line with ``listings`` is of the table of the tutorials, one with a ``sample`` of that of the samples. A table of
which RESULTS has no line stays as it is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.tutorials.corrections import CORRECTIONS

Entries = Sequence[dict[str, Any]]
BRANDS = {"openmpi": "Open MPI", "mpich": "MPICH"}


class Block(NamedTuple):
    """A table of the page: the comments around it, which results are in it, and what makes it of them."""

    begin: str
    end: str
    holds: Callable[[dict[str, Any]], bool]
    table: Callable[[Entries], list[str]]


def tutorials(entries: Entries) -> list[str]:
    """Return the table of the listings: a row for each claim, in the order of the documents."""
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in entries:
        rows.setdefault((entry["document"], entry["shows"]), []).append(entry)
    lines = [
        f"| {document} | {', '.join(found[0]['listings']) or 'left to the reader'} | {_claim(shows)} "
        f"| {_ranks(found)} | {_outcomes(found)} | {_mended(document, found[0]['listings'])} |"
        for (document, shows), found in rows.items()
    ]
    head = f"| document | listings | what is seen | ranks | {' | '.join(BRANDS.values())} | mended |"
    return [head, "|---|---|---|---|---|---|---|", *lines]


def samples(entries: Entries) -> list[str]:
    """Return the table of the samples: a row for each program or script, its branches together."""
    rows: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for entry in entries:
        rows.setdefault((entry["sample"], entry["command"], entry["shows"]), []).append(entry)
    lines = [
        f"| {sample} | `{command}` | {', '.join(dict.fromkeys(entry['branch'] for entry in found))} "
        f"| {shows} | {_outcomes(found)} |"
        for (sample, command, shows), found in rows.items()
    ]
    head = f"| sample | command | branches | what is seen | {' | '.join(BRANDS.values())} |"
    return [head, "|---|---|---|---|---|---|", *lines]


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
    ),
    Block(
        "<!-- samples: written by make from-mindspore -->",
        "<!-- end of samples -->",
        lambda entry: "sample" in entry,
        samples,
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
            _, _, after = rest.partition(block.end)
            dates = sorted({entry["date"] for entry in chosen})
            head = f"As run on {' to '.join(sorted({dates[0], dates[-1]}))}."
            page = "\n".join([f"{before}{block.begin}", head, "", *block.table(chosen), f"{block.end}{after}"])
    return page


def main() -> None:
    source, page = map(Path, sys.argv[1:])
    entries = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    page.write_text(rewritten(page.read_text(encoding="utf-8"), entries), encoding="utf-8")


if __name__ == "__main__":
    main()
