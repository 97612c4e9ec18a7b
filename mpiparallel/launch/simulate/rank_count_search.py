"""The cheapest number of ranks that a training fits on: the script is simulated for each, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError, LaunchError
from mpiparallel.launch.plan.report import amount, duration
from mpiparallel.launch.simulate.report import table


@dataclass(frozen=True)
class SimulatedRanks:
    """A number of ranks, and what was found of it: a forecast as JSON, or why there is none."""

    ranks: int
    found: dict[str, Any] | None
    problem: str = ""

    @property
    def fits(self) -> bool:
        """Whether a rank has the memory."""
        return self.found is not None and self.found["missing_memory"] <= 0

    @property
    def cost(self) -> float:
        """Seconds of ranks for a sample, or for a step where samples are not known."""
        return 0.0 if self.found is None else self.ranks * self.found["seconds"] / (self.found["samples"] or 1)


def counts(first: int, last: int) -> tuple[int, ...]:
    """Return the numbers of ranks that are tried: powers of two.

    >>> counts(4, 20)
    (4, 8, 16)
    >>> counts(1 << 15, 1 << 16)
    (32768, 65536)
    """
    powers = (1 << power for power in range(last.bit_length()))
    return tuple(power for power in powers if first <= power <= last)


def find(words: Sequence[str], first: int, last: int) -> tuple[SimulatedRanks, ...]:
    """Simulate a script by the command line ``words`` for powers of two from ``first`` to ``last``."""
    return tuple(_tried(words, ranks) for ranks in counts(first, last))


def _tried(words: Sequence[str], ranks: int) -> SimulatedRanks:
    command = [sys.executable, "-m", "mpiparallel", "simulate", "--json", f"--ranks={ranks}", *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        said = ended.stderr.strip().splitlines()
        return SimulatedRanks(ranks, None, said[-1] if said else f"it ended with code {ended.returncode}")
    return SimulatedRanks(ranks, json.loads(ended.stdout))


def cheapest(tried: Sequence[SimulatedRanks]) -> SimulatedRanks:
    """Return the number of ranks that fits and costs least.

    Raises LaunchError where none could be simulated, and ConfigurationError where none fits: it says by how much, and
    what comes closest.
    """
    found = [one for one in tried if one.found is not None]
    if not found:
        raise LaunchError(f"--find: {tried[-1].problem}" if tried else "--find: there is no power of two to try")
    fitting = [one for one in found if one.fits]
    if fitting:
        return min(fitting, key=lambda one: (one.cost, one.ranks))
    closest = min(found, key=lambda one: one.found["missing_memory"] if one.found else 0)
    missing, needed = (int(closest.found[key]) for key in ("missing_memory", "memory")) if closest.found else (0, 0)
    raise ConfigurationError(
        f"--find: nothing fits; {closest.ranks} ranks come closest, with {amount(needed)} a rank, {amount(missing)} "
        "too much; cut more operators, use the parallel optimizer or recomputation, or let --most be larger"
    )


def finding_text(tried: Sequence[SimulatedRanks], best: SimulatedRanks) -> str:
    """Return all numbers of ranks as a table; the cheapest that fits has a star."""
    return "\n".join(table(list(_rows(tried, best)), ">>>>><"))


def _rows(tried: Sequence[SimulatedRanks], best: SimulatedRanks) -> Iterator[tuple[str, ...]]:
    yield "ranks", "step", "samples/s", "rank-seconds/sample", "a rank", ""
    for one in tried:
        if one.found is None:
            yield f"{one.ranks:,}", "", "", "", "", one.problem
            continue
        seconds, samples = one.found["seconds"], one.found["samples"]
        mark = "*" if one is best else "" if one.fits else f"{amount(int(one.found['missing_memory']))} too much"
        rate = f"{samples / seconds:,.4g}" if samples and seconds else ""
        yield f"{one.ranks:,}", duration(seconds), rate, f"{one.cost:.4g}", amount(int(one.found["memory"])), mark
