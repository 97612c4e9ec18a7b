"""Make the tables of a page from the figures of tests: ``python -m tests.reliability.report FIGURES PAGE``.

A line with a ``claim`` is of the table of a soak, one with an ``event`` of those of jobs that ended, on one host or on
several. A table of which FIGURES has no line stays as it is, and so does the row of a claim.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

Entries = Sequence[dict[str, Any]]
BRANDS = {"openmpi": "Open MPI", "mpich": "MPICH"}
LONGEST_SAID = 340
CLAIMS = "| what was done | to what | figures | when |"


class Block(NamedTuple):
    """A table of the page: the comments around it, which figures are in it, and what makes it of them."""

    begin: str
    end: str
    holds: Callable[[dict[str, Any]], bool]
    table: Callable[[Entries, Sequence[str]], list[str]]


def claims(entries: Entries, old: Sequence[str]) -> list[str]:
    """Return the table of what was tried: a row for each claim, its variants together; ``old`` rows of others stay."""
    variants: dict[str, dict[str, None]] = {}
    figures: dict[str, Counter[str]] = {}
    dates: dict[str, set[str]] = {}
    for entry in entries:
        claim, _, variant = entry["claim"].partition(": ")
        variants.setdefault(claim, {})[_named(variant)] = None
        sums = figures.setdefault(claim, Counter())
        for name, number in entry["figures"].items():
            sums[name] += number
        dates.setdefault(claim, set()).add(entry["date"])
    rows = {
        claim: f"| {claim} | {'; '.join(filter(None, variants[claim]))} | {_told(sums)} | {_span(dates[claim])} |"
        for claim, sums in figures.items()
    }
    kept = {line.split(" | ")[0].removeprefix("| "): line for line in old if line.startswith("| ") and line != CLAIMS}
    return [CLAIMS, "|---|---|---|---|", *(kept | rows).values()]


def failures(entries: Entries, old: Sequence[str]) -> list[str]:
    """Return the table of how jobs ended: a row for each event, a column for each MPI library; no ``old`` row stays."""
    events: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        hosts = f", {entry['hosts']} hosts" if entry["hosts"] > 1 else ""
        events.setdefault(f"{entry['event']}{hosts}", []).append(entry)
    rows = [
        f"| {event} | {' | '.join(_seconds(found, mpi) for mpi in BRANDS)} | {_codes(found)} | {_said(found)} |"
        for event, found in events.items()
    ]
    longest = max(entry.get("gone_after", 0.0) for entry in entries)
    jobs = f"After the launcher of these {len(entries)} jobs"
    vanished = f"{jobs} none of their processes lived longer than {longest:.1f} s."
    head = f"| what happens | {' | '.join(BRANDS.values())} | exit code | what it says |"
    return [vanished, "", head, "|---|---|---|---|---|", *rows]


def _seconds(entries: Entries, mpi: str) -> str:
    times = [entry["seconds"] for entry in entries if entry["mpi"] == mpi]
    if not times:
        return "-"
    return f"{median(times):.1f} s" + (f", at most {max(times):.1f} s in {len(times)} jobs" if len(times) > 1 else "")


def _codes(entries: Entries) -> str:
    codes = {128 - entry["code"] if entry["code"] < 0 else entry["code"] for entry in entries}
    return ", ".join(map(str, sorted(codes)))


def _said(entries: Entries) -> str:
    words = next((entry["said"] for entry in entries if entry["said"]), "")
    if not words:
        return "nothing: it is gone"
    shown = words if len(words) <= LONGEST_SAID else f"{words[:LONGEST_SAID]}..."
    # As code, because a dtype looks like a tag.
    return f"`{shown.replace('|', '').replace('`', chr(39))}`"


def _span(dates: Collection[str]) -> str:
    return " to ".join(sorted({min(dates), max(dates)}))


def _told(figures: Counter[str]) -> str:
    return ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in figures.items())


def _named(variant: str) -> str:
    for name, brand in BRANDS.items():
        variant = variant.replace(name, brand)
    return variant


def _machine() -> str:
    processors = Path("/proc/cpuinfo")
    names = [line.partition(":")[2] for line in processors.read_text().splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "h5py"))
    cores = f"{os.cpu_count()} cores of a machine with {names[0].strip() if names else platform.machine()}"
    return f"{cores}, {memory:.0f} GB, {platform.system()}, Python {platform.python_version()}, {libraries}"


BLOCKS = (
    Block(
        "<!-- figures: written by make soak -->",
        "<!-- end of figures -->",
        lambda entry: "claim" in entry,
        claims,
    ),
    Block(
        "<!-- failures on one host: written by make soak -->",
        "<!-- end of failures on one host -->",
        lambda entry: entry.get("hosts") == 1,
        failures,
    ),
    Block(
        "<!-- failures on several hosts: written by make soak -->",
        "<!-- end of failures on several hosts -->",
        lambda entry: entry.get("hosts", 1) > 1,
        failures,
    ),
)


def rewritten(page: str, entries: Entries) -> str:
    """Return ``page`` with the tables that ``entries`` have figures for; ValueError where it has no place for one."""
    for block in BLOCKS:
        chosen = [entry for entry in entries if block.holds(entry)]
        if chosen:
            if block.begin not in page or block.end not in page:
                raise ValueError(f"the page has no {block.begin} or no {block.end}: put both where the table belongs")
            before, _, rest = page.partition(block.begin)
            old, _, after = rest.partition(block.end)
            head = f"{_span({entry['date'] for entry in chosen})}, {_machine()}."
            table = block.table(chosen, old.splitlines())
            page = "\n".join([f"{before}{block.begin}", head, "", *table, f"{block.end}{after}"])
    return page


def main() -> None:
    source, page = map(Path, sys.argv[1:])
    entries = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    page.write_text(rewritten(page.read_text(encoding="utf-8"), entries), encoding="utf-8")


if __name__ == "__main__":
    main()
