"""Make the table of a page from the figures of a soak: ``python -m tests.reliability.report FIGURES PAGE``."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

BEGIN = "<!-- figures: written by make soak -->"
END = "<!-- end of figures -->"
BRANDS = {"openmpi": "Open MPI", "mpich": "MPICH"}


def table(lines: list[str]) -> str:
    """Return the table of the figures: a row for each claim, its variants together."""
    variants: dict[str, dict[str, None]] = {}
    figures: dict[str, Counter[str]] = {}
    dates = set()
    for line in lines:
        entry = json.loads(line)
        claim, _, variant = entry["claim"].partition(": ")
        variants.setdefault(claim, {})[_named(variant)] = None
        sums = figures.setdefault(claim, Counter())
        for name, number in entry["figures"].items():
            sums[name] += number
        dates.add(entry["date"])
    rows = [f"| {claim} | {'; '.join(filter(None, variants[claim]))} | {_told(figures[claim])} |" for claim in figures]
    head = [
        f"{' to '.join(sorted({min(dates), max(dates)}))}, {_machine()}.",
        "",
        "| what was done | to what | figures |",
    ]
    return "\n".join([*head, "|---|---|---|", *rows])


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


def main() -> None:
    source, page = map(Path, sys.argv[1:])
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    lines = source.read_text(encoding="utf-8").splitlines()
    page.write_text(f"{before}{BEGIN}\n{table(lines)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
