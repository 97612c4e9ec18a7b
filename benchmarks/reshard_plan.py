"""How long one rank plans a move, and in how much memory: no MPI, no devices, any number of ranks.

    python benchmarks/reshard_plan.py
    python benchmarks/reshard_plan.py --only "distinct .*16384" --repetitions 3

Each case is planned in a process of its own, several times; the fastest counts. ``plan`` is ``plan_reshard`` of one
rank, ``layouts`` the making of the Layout objects and ``digest`` the comparison's digest, both apart from it.
``MB traced`` is what Python allocated at most while it planned, ``MB grown`` by how much the peak of the process grew.
``loops`` is the plan's time over that of a million additions in a Python loop, measured beside it: so figures of slow
and of fast hours can be compared. A case is a line in the table below.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mpiparallel.cluster.hosts import Hosts
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.planning.plan import LayoutPair, plan_digest, plan_reshard

TENSORS = 10_000
MODEL_RANKS = 8
HIDDEN = 12_288

Shape = tuple[int, ...]
Cutting = Callable[[int], Callable[[Shape], Layout]]


def whole(ranks: int) -> Callable[[Shape], Layout]:
    """Return replicas on every rank."""
    return lambda shape: Layout.replicated(shape, DeviceMatrix((ranks,)))


def grid(ranks: int) -> Callable[[Shape], Layout]:
    """Return rows over the major axis and columns over the minor one: no replicas."""
    minor = 1 << ((ranks & -ranks).bit_length() // 2)
    devices = DeviceMatrix((ranks // minor, minor))
    return lambda shape: Layout(shape, devices, ((0,), (1,), *((),) * (len(shape) - 2))[: len(shape)])


def columns(ranks: int, parts: int = MODEL_RANKS) -> Callable[[Shape], Layout]:
    """Return tensor parallel columns, replicated over data parallel ranks; vectors are replicated."""
    devices = DeviceMatrix((ranks // parts, parts))
    return lambda shape: Layout(shape, devices, ((), (1,)) if len(shape) == 2 else ((),))


def six_columns(ranks: int) -> Callable[[Shape], Layout]:
    """Return tensor parallel columns over six ranks."""
    return columns(ranks, 6)


def shards(ranks: int) -> Callable[[Shape], Layout]:
    """Return tensor parallel columns, and the rows once more over the data parallel ranks: the parallel optimizer."""
    devices = DeviceMatrix((ranks // MODEL_RANKS, MODEL_RANKS))
    return lambda shape: Layout(shape, devices, ((), (1,)) if len(shape) == 2 else ((),), optimizer_axes=(0,))


def distinct_shapes() -> Iterator[tuple[str, Shape]]:
    """Yield matrices no two of which are alike."""
    numbers = random.Random(1)
    for index in range(TENSORS):
        yield f"tensor.{index}", (numbers.randint(4096, 65536), numbers.randint(4096, 65536))


def transformer_shapes() -> Iterator[tuple[str, Shape]]:
    """Yield the weights of a Transformer with their two moments, layer after layer."""
    layer: list[tuple[str, Shape]] = [
        *((f"attention.{name}.weight", (HIDDEN, HIDDEN)) for name in ("query", "key", "value", "output")),
        *((f"attention.{name}.bias", (HIDDEN,)) for name in ("query", "key", "value", "output")),
        ("mapping.weight", (HIDDEN, 4 * HIDDEN)),
        ("mapping.bias", (4 * HIDDEN,)),
        ("projection.weight", (4 * HIDDEN, HIDDEN)),
        ("projection.bias", (HIDDEN,)),
        *((f"norm{place}.{name}", (HIDDEN,)) for place in (1, 2) for name in ("gamma", "beta")),
    ]
    for index in range(TENSORS):
        number, place = divmod(index, 3 * len(layer))
        moment, place = divmod(place, len(layer))
        name, shape = layer[place]
        yield f"{('', 'moment1.', 'moment2.')[moment]}layer{number}.{name}", shape


class Case(NamedTuple):
    """A state and its move from ``source`` to ``target`` ranks."""

    name: str
    shapes: Callable[[], Iterator[tuple[str, Shape]]]
    before: Cutting
    after: Cutting
    source: int
    target: int
    ranks_per_host: int = 0

    def layouts(self) -> dict[str, LayoutPair]:
        """Return the layouts of all tensors, an object for each."""
        before, after = self.before(self.source), self.after(self.target)
        return {tensor: (before(shape), after(shape)) for tensor, shape in self.shapes()}

    @property
    def title(self) -> str:
        """The name with its numbers of ranks."""
        return f"{self.name} {self.source} -> {self.target}"


def all_cases() -> list[Case]:
    """Return the table of cases."""
    wide = (16_384, 12_288)
    growing = [(64, 48), (1024, 768), wide]
    return [
        *(Case("distinct, no replicas", distinct_shapes, grid, grid, *ranks) for ranks in growing),
        *(Case("distinct, optimizer shards", distinct_shapes, shards, shards, *ranks) for ranks in growing),
        Case("distinct, all replicated", distinct_shapes, whole, whole, *wide),
        Case("distinct, all replicated, join", distinct_shapes, whole, whole, *wide[::-1]),
        Case("distinct, replicated to grid", distinct_shapes, whole, grid, *wide),
        Case("distinct, columns", distinct_shapes, columns, columns, *wide),
        Case("distinct, columns, hosts of 8", distinct_shapes, columns, columns, *wide, 8),
        Case("distinct, 8 to 6 columns", distinct_shapes, columns, six_columns, *wide),
        Case("distinct, 8 to 6 columns, hosts", distinct_shapes, columns, six_columns, *wide, 8),
        *(Case("Transformer, shards", transformer_shapes, shards, shards, *ranks) for ranks in growing),
        Case("Transformer, columns", transformer_shapes, columns, columns, *wide),
        Case("Transformer, 8 to 6 columns", transformer_shapes, columns, six_columns, *wide),
    ]


class Row(NamedTuple):
    """What one process measured."""

    layouts: float
    digest: float
    plan: float
    loop: float
    traced: float
    grown: float
    transfers: int


def measure(case: Case, repetitions: int) -> Row:
    """Return the figures of a case, planned in this process."""
    rank = min(case.source, case.target) // 3 + 1
    hosts = Hosts.uniform(case.ranks_per_host) if case.ranks_per_host else None
    making, hashing, planning, looping = [], [], [], []
    made = case.layouts()
    before = peak_bytes()
    plan = plan_reshard(made, rank, None, hosts)
    grown = peak_bytes() - before
    transfers = len(plan.sends) + len(plan.receives) + len(plan.copies)
    del plan
    for _ in range(repetitions):
        making.append(seconds(case.layouts))
        hashing.append(seconds(plan_digest, case.layouts()))
        planning.append(seconds(plan_reshard, case.layouts(), rank, None, hosts))
        looping.append(seconds(million_additions))
    made = case.layouts()
    tracemalloc.start()
    plan_reshard(made, rank, None, hosts)
    traced = tracemalloc.get_traced_memory()[1]
    return Row(min(making), min(hashing), min(planning), min(looping), traced / 1e6, grown / 1e6, transfers)


def seconds(function: Callable[..., object], *arguments: object) -> float:
    """Return how long a call takes, without the end of what it returns."""
    started = time.perf_counter()
    kept = function(*arguments)
    ended = time.perf_counter()
    del kept
    return ended - started


def million_additions() -> None:
    """Do what shows the speed of the interpreter here."""
    total = 0
    for number in range(1_000_000):
        total += number


def peak_bytes() -> int:
    """Return the largest resident size of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure_apart(case: Case, repetitions: int) -> Row:
    """Return the figures of a case from a process of its own."""
    command = [sys.executable, __file__, "--worker", case.title, "--repetitions", str(repetitions)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Row(*json.loads(done.stdout))


def heading() -> str:
    """Return the first line of the table."""
    columns = ("layouts s", "digest s", "plan s", "loops", "MB traced", "MB grown", "transfers")
    return f"{f'{TENSORS:,} tensors':46}" + "".join(f"{name:>11}" for name in columns)


def line(case: Case, row: Row) -> str:
    """Return a line of the table."""
    times = f"{row.layouts:11.3f}{row.digest:11.3f}{row.plan:11.3f}{row.plan / row.loop:11.1f}"
    return f"{case.title:46}{times}{row.traced:11.0f}{row.grown:11.0f}{row.transfers:11d}"


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a regular expression: the cases whose name has a match")
    parser.add_argument("--repetitions", type=int, default=5, help="how often everything is timed (default 5)")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the chosen cases, a line each."""
    flags = make_parser().parse_args(arguments)
    if flags.worker:
        case = next(case for case in all_cases() if case.title == flags.worker)
        print(json.dumps(measure(case, flags.repetitions)))
        return
    chosen = [case for case in all_cases() if re.search(flags.only, case.title)]
    if not chosen:
        raise SystemExit(f"--only {flags.only!r} fits no case")
    print(heading())
    rows = {}
    for case in chosen:
        rows[case.title] = measure_apart(case, flags.repetitions)
        print(line(case, rows[case.title]), flush=True)
    if flags.json:
        told = {title: row._asdict() for title, row in rows.items()}
        flags.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
