"""Which rank is on which host: what a plan needs to know of the machine, as integers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import RankTableError


@dataclass(frozen=True)
class Hosts:
    """The host of each rank: ``numbers[rank]``, or ``rank // ranks_per_host`` for any rank where numbers are not given.

    A small value that can be compared and hashed. Raises RankTableError unless one of the two is given: numbers from 0,
    or at least one rank per host.

    >>> Hosts((0, 0, 1)).ranks_of(0)
    (0, 1)
    """

    numbers: tuple[int, ...] = ()
    ranks_per_host: int = 0

    def __post_init__(self) -> None:
        if (
            bool(self.numbers) == bool(self.ranks_per_host)
            or self.ranks_per_host < 0
            or min(self.numbers, default=0) < 0
        ):
            raise RankTableError(
                f"hosts of ranks {self.numbers[:8]}, {self.ranks_per_host} ranks per host: give the host of each rank "
                "as a number from 0, or how many ranks each host has"
            )

    @classmethod
    def uniform(cls, ranks_per_host: int) -> Hosts:
        """Return hosts of ``ranks_per_host`` consecutive ranks each, for any number of ranks.

        >>> Hosts.uniform(4).host(11)
        2
        """
        return cls(ranks_per_host=ranks_per_host)

    def host(self, rank: int) -> int:
        """Return the number of the host of ``rank``. Raises RankTableError for a rank whose host is not known."""
        if self.ranks_per_host:
            return rank // self.ranks_per_host
        if not 0 <= rank < len(self.numbers):
            raise RankTableError(
                f"rank {rank}: hosts are known of {len(self.numbers)} ranks; give the host of each rank"
            )
        return self.numbers[rank]

    def ranks_of(self, host: int) -> Sequence[int]:
        """Return the ranks of ``host``, ascending; none for a host that is not there."""
        if self.ranks_per_host:
            return range(host * self.ranks_per_host, (host + 1) * self.ranks_per_host)
        return self._ranks.get(host, ())

    @cached_property
    def _ranks(self) -> dict[int, tuple[int, ...]]:
        found: dict[int, list[int]] = {}
        for rank, host in enumerate(self.numbers):
            found.setdefault(host, []).append(rank)
        return {host: tuple(ranks) for host, ranks in found.items()}
