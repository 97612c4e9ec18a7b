"""The machine that a step is priced for: hosts of equal ranks, their rates, and the links between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from math import inf, log2
from typing import Final

from mpiparallel.dataclass import dataclass
from mpiparallel.search.machine.kernel_times import KernelTimes

COLLECTIVES: Final = ("reduce", "reduce_scatter", "gather", "exchange")
"""The kinds of steps of a redistribution that communicate."""


@dataclass(frozen=True)
class Link:
    """The way from rank to rank: seconds that a message takes however short, and bytes a second."""

    latency: float
    bandwidth: float


@dataclass(frozen=True)
class CollectiveTimes:
    """What collectives of a ``kind`` take ``ranks`` ranks of a host, all its ranks busy with them.

    ``kind`` is one of ``COLLECTIVES``. ``times`` are pairs of the bytes that a
    rank sums up, gathers or receives and seconds, by ascending bytes.
    """

    kind: str
    ranks: int
    times: tuple[tuple[float, float], ...]

    def seconds(self, size: float) -> float:
        """Return the seconds for so many bytes, between and beyond those measured in proportion.

        >>> CollectiveTimes("gather", 2, ((1e3, 2.0), (2e3, 3.0))).seconds(1.5e3)
        2.5
        """
        (first, least), (last, most) = self.times[0], self.times[-1]
        if size <= first:
            return least
        for (low, short), (high, long) in pairwise(self.times):
            if size <= high:
                return short + (long - short) * (size - low) / (high - low)
        return most * size / last


@dataclass(frozen=True)
class Machine:
    """Hosts of ``ranks_per_host`` ranks each, consecutive ranks side by side; a job takes as many as it needs.

    A host has ``cores`` for them, as many as ranks where that is 0. More ranks than cores take turns, so what a rank
    computes takes as many times longer. All rates are those of a rank that has a core; links are those of all at once.
    ``products`` are pairs of operations of a matrix product and operations a second of one rank, by ascending size.
    Between them the rate is interpolated over the logarithm of the size. ``products_16`` are those of 16 bits; without,
    they are as quick as the others. Besides, a product brings its matrices into the order of its kernels, with
    ``operand_bandwidth`` bytes a second. ``kernels`` are what was measured of the kernels of other operators, by name.
    Those without follow from ``operation_rate``, that of all other operators, and ``memory_bandwidth`` (bytes a
    second), a rank's while all ranks of its host are busy. ``launch`` are the seconds that an operator takes however
    small, ``resuming`` those that a collective costs a rank beside itself, where ranks take turns. ``memory`` are the
    bytes that a rank has. ``libraries`` are those of them that what compiles and runs its kernels takes, 0 where that
    is not known. ``inside`` links the ranks of a host, ``between`` is the card of a host, which its ranks share.
    ``reduction_rate`` is bytes a second of summing. ``collectives`` are what was measured of those inside a host;
    without, they follow from link and rate.
    """

    hosts: int = 1
    ranks_per_host: int = 8
    cores: int = 0
    memory: float = inf
    libraries: float = 0.0
    products: tuple[tuple[float, float], ...] = ((1e4, 5e8), (1e6, 8e9), (1e8, 3e10), (1e10, 4e10))
    products_16: tuple[tuple[float, float], ...] = ()
    operand_bandwidth: float = inf
    operation_rate: float = 2e9
    memory_bandwidth: float = 5e9
    launch: float = 4e-6
    resuming: float = 0.0
    inside: Link = Link(4e-6, 3e9)
    between: Link = Link(2e-5, 12.5e9)
    reduction_rate: float = 4e9
    kernels: tuple[KernelTimes, ...] = ()
    collectives: tuple[CollectiveTimes, ...] = ()

    @property
    def turns(self) -> float:
        """How many ranks take turns on a core, 1 where each has one.

        >>> Machine(ranks_per_host=8, cores=2).turns
        4.0
        """
        return max(1.0, self.ranks_per_host / self.cores) if self.cores else 1.0

    @property
    def summary(self) -> str:
        """How many ranks it has.

        >>> Machine(hosts=2).summary
        '2 hosts of 8 ranks'
        """
        return f"{self.hosts} host{'s' * (self.hosts != 1)} of {self.ranks_per_host} ranks"

    def product_rate(self, operations: float, is_narrow: bool = False) -> float:
        """Return operations a second of one rank in a matrix product of so many; ``is_narrow``: of floats of 16 bits.

        >>> Machine(products=((1e2, 1e6), (1e4, 3e6))).product_rate(1e4)
        3000000.0
        """
        rates = (is_narrow and self.products_16) or self.products
        return interpolated(rates, operations)

    def kernel_times(self, names: Iterable[str]) -> KernelTimes | None:
        """Return what was measured of the first of these kernels that was; None where none was.

        >>> Machine(kernels=(KernelTimes("ReLU", call=1e-6),)).kernel_times(("Sqrt", "ReLU")).call
        1e-06
        """
        return next((self._kernels[name] for name in names if name in self._kernels), None)

    def collective_seconds(self, kind: str, ranks: int, size: float) -> float | None:
        """Return what a collective inside a host takes by what was measured; None where nothing was.

        Between numbers of ranks it is interpolated over their logarithm.
        """
        measured = self._measured.get(kind)
        if not measured:
            return None
        return interpolated([(one.ranks, one.seconds(size)) for one in measured], ranks)

    @cached_property
    def _kernels(self) -> dict[str, KernelTimes]:
        return {one.name: one for one in self.kernels}

    @cached_property
    def _measured(self) -> dict[str, list[CollectiveTimes]]:
        found: dict[str, list[CollectiveTimes]] = {}
        for one in sorted(self.collectives, key=lambda one: one.ranks):
            found.setdefault(one.kind, []).append(one)
        return found


def interpolated(points: Sequence[tuple[float, float]], size: float) -> float:
    """Return the value at ``size`` between points of ascending sizes, over the logarithm; beyond them the nearest's.

    >>> interpolated(((1, 10), (16, 30)), 4)
    20.0
    """
    if size <= points[0][0]:
        return points[0][1]
    for (low, first), (high, second) in pairwise(points):
        if size <= high:
            part = (log2(size) - log2(low)) / (log2(high) - log2(low))
            return first + (second - first) * part
    return points[-1][1]
