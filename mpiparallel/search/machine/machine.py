"""The machine that a step is priced for: hosts of equal ranks, their rates, and the links between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, log2


@dataclass(frozen=True)
class Link:
    """The way from rank to rank: seconds that a message takes however short, and bytes a second."""

    latency: float
    bandwidth: float


@dataclass(frozen=True)
class Machine:
    """Hosts of ``ranks_per_host`` ranks each, consecutive ranks side by side; a job takes as many as it needs.

    A host has ``cores`` for them, as many as ranks where that is 0: more ranks than cores take turns, so what a rank
    computes takes as many times longer. All rates are those of a rank that has a core; links are those of all at once.
    ``products`` are pairs of operations of a matrix product and operations a second of one rank, by ascending size;
    between them the rate is interpolated over the logarithm of the size. ``operation_rate`` is that of all other
    operators. ``memory_bandwidth`` (bytes a second) is a rank's while all ranks of its host are busy; ``launch`` the
    seconds that an operator takes however small; ``memory`` the bytes that a rank has, ``libraries`` those that what
    compiles and runs its kernels takes of them, 0 where that is not known. ``inside`` links the ranks of a
    host, ``between`` is the card of a host, which its ranks share. ``reduction_rate`` is bytes a second of summing.
    """

    hosts: int = 1
    ranks_per_host: int = 8
    cores: int = 0
    memory: float = inf
    libraries: float = 0.0
    products: tuple[tuple[float, float], ...] = ((1e4, 5e8), (1e6, 8e9), (1e8, 3e10), (1e10, 4e10))
    operation_rate: float = 2e9
    memory_bandwidth: float = 5e9
    launch: float = 4e-6
    inside: Link = Link(4e-6, 3e9)
    between: Link = Link(2e-5, 12.5e9)
    reduction_rate: float = 4e9

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

    def product_rate(self, operations: float) -> float:
        """Return operations a second of one rank in a matrix product of so many.

        >>> Machine(products=((1e2, 1e6), (1e4, 3e6))).product_rate(1e4)
        3000000.0
        """
        return interpolated(self.products, max(operations, 1.0))


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
