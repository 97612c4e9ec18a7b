"""How long one rank takes to read a rank table, which every rank of a job does before it starts MPI.

    python benchmarks/rank_table.py
    python benchmarks/rank_table.py --ranks 10000 --repetitions 9

``read`` is the file to a `RankTable`; ``refuse`` the same for a table in which two devices each have the same rank_id,
with every fault found and the first thousand sorted and given their lines; ``warn`` what HCCL would not like of it.
Each is run several times; the fastest counts. ``MB grown`` is by how much the peak of the process grew at first.
"""

from __future__ import annotations

import argparse
import re
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mpiparallel.cluster.device_rules import device_warnings
from mpiparallel.cluster.file_problems import MalformedFileError
from mpiparallel.cluster.rank_table import Device, RankTable, Server

DEVICES = 8
_RANK = re.compile(r'"rank_id": "([0-9]+)"')


def table_of(ranks: int) -> RankTable:
    """Return a table of ``ranks`` ranks on servers of eight devices, named in the order of their ranks."""
    return RankTable(
        tuple(
            Server(
                f"node{first // DEVICES:06}",
                tuple(
                    Device(rank - first, f"10.{rank >> 16}.{rank >> 8 & 255}.{rank & 255}", rank)
                    for rank in range(first, min(first + DEVICES, ranks))
                ),
            )
            for first in range(0, ranks, DEVICES)
        )
    )


def quickest(call: Callable[[], object], repetitions: int) -> float:
    """Return the seconds of the fastest of so many calls."""
    found = []
    for _ in range(repetitions):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def refused(path: Path) -> MalformedFileError:
    """Return the error that reading ``path`` ends with."""
    try:
        RankTable.load(path)
    except MalformedFileError as error:
        return error
    raise SystemExit(f"{path} was read, though its ranks repeat")


def peak() -> float:
    """Return the most memory that this process ever held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def rows(counts: list[int], repetitions: int, folder: Path) -> Iterator[str]:
    """Yield a line of figures for each number of ranks."""
    for ranks in counts:
        table = table_of(ranks)
        good, bad = folder / f"{ranks}.json", folder / f"{ranks}_bad.json"
        good.write_text(table.to_json())
        bad.write_text(_RANK.sub(lambda match: f'"rank_id": "{int(match[1]) // 2}"', table.to_json()))
        before = peak()
        RankTable.load(good)
        grown = peak() - before
        read = quickest(lambda path=good: RankTable.load(path), repetitions)
        warned = quickest(lambda table=table: device_warnings(table), repetitions)
        refusal = quickest(lambda path=bad: refused(path), repetitions)
        yield (
            f"{ranks:>7,} {good.stat().st_size / 1e3:>9,.0f} {read * 1e3:>9.1f} {warned * 1e3:>9.1f} "
            f"{refusal * 1e3:>9.1f} {refused(bad).count:>9,} {grown:>9.1f}"
        )


def main() -> None:
    """Print the table of figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 1000, 10_000, 50_000])
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{'ranks':>7} {'kB':>9} {'read ms':>9} {'warn ms':>9} {'refuse ms':>9} {'faults':>9} {'MB grown':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(arguments.ranks, arguments.repetitions, Path(folder)):
            print(row, flush=True)


if __name__ == "__main__":
    main()
