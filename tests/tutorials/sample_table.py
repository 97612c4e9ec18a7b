"""The table of the samples, made of results, and read back, so that a part of the runs can complete or renew it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from tests.tutorials.record import BRANDS
from tests.tutorials.sample_runs import RUNS

Entry = dict[str, Any]
_KEY = ("sample", "command", "shows")
_ORDER = {(run.sample, run.command, shows): place for place, run in enumerate(RUNS) for shows in run.can_show}
_NONE = "-"


def table(entries: Iterable[Entry]) -> list[str]:
    """Return a row for each program or script, in their order; the last result of a run counts.

    Results of runs that are no longer made are left out.
    """
    rows: dict[tuple[str, str, str], dict[tuple[str, str], str]] = {}
    for entry in entries:
        key = entry["sample"], entry["command"], entry["shows"]
        if key in _ORDER:
            rows.setdefault(key, {})[entry["branch"], entry["mpi"]] = entry["outcome"]
    head = f"| sample | command | branches | what is seen | {' | '.join(BRANDS.values())} |"
    return [head, "|---|---|---|---|---|---|", *(_row(key, rows[key]) for key in sorted(rows, key=_ORDER.__getitem__))]


def completed(entries: Sequence[Entry], rows: Iterable[str], date: str) -> list[Entry]:
    """Return ``entries``, and before them what the ``rows`` of a table of ``date`` tell of other runs."""
    new = {_identity(entry) for entry in entries}
    return [*(entry for entry in _entries_of(rows, date) if _identity(entry) not in new), *entries]


def _identity(entry: Entry) -> tuple[str, ...]:
    return tuple(entry[name] for name in (*_KEY, "branch", "mpi"))


def _entries_of(rows: Iterable[str], date: str) -> list[Entry]:
    found = []
    for row in rows:
        sample, command, branches, shows, *cells = row.strip("| ").split(" | ")
        run = dict(zip(_KEY, (sample, command.strip("`"), shows), strict=True)) | {"date": date}
        for mpi, cell in zip(BRANDS, cells, strict=True):
            found += [
                run | {"mpi": mpi, "branch": branch, "outcome": outcome} for branch, outcome in _told(cell, branches)
            ]
    return found


def _row(key: tuple[str, str, str], outcomes: dict[tuple[str, str], str]) -> str:
    sample, command, shows = key
    branches = sorted({branch for branch, _ in outcomes}, key=_number)
    cells = [
        _cell({branch: outcomes[branch, mpi] for branch in branches if (branch, mpi) in outcomes}, branches)
        for mpi in BRANDS
    ]
    return f"| {sample} | `{command}` | {', '.join(branches)} | {shows} | {' | '.join(cells)} |"


def _number(branch: str) -> list[int]:
    """Return what puts r1.10 behind r1.9."""
    return [int(digits) for digits in re.findall(r"\d+", branch)]


def _cell(outcomes: dict[str, str], branches: Sequence[str]) -> str:
    """Return what came of a run with one library, with the branches where it did not come of all."""
    if list(outcomes) == list(branches) and len(set(outcomes.values())) == 1:
        return outcomes[branches[0]]
    each = {
        outcome: [name for name in outcomes if outcomes[name] == outcome] for outcome in sorted({*outcomes.values()})
    }
    return "; ".join(f"{outcome} ({', '.join(names)})" for outcome, names in each.items()) or _NONE


def _told(cell: str, branches: str) -> list[tuple[str, str]]:
    """Return what a cell tells of each branch."""
    parts = [part.partition(" (") for part in cell.split("; ") if part != _NONE]
    return [
        (branch, outcome) for outcome, _, named in parts for branch in (named.removesuffix(")") or branches).split(", ")
    ]
