"""Which rank each process is: MPI numbers processes host by host, a rank table numbers devices as it likes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import RankTableError

_RUN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


@dataclass(frozen=True)
class RankOrder:
    """The ranks in MPI's order: process ``number`` of ``MPI_COMM_WORLD`` is rank ``ranks[number]`` of the job.

    The launcher finds the order and tells it each rank, as a text of runs. The world is then made in the order of
    ranks, not of processes.

    Raises
    ------
    RankTableError
        The ranks are not 0 to n - 1, each once.

    Examples
    --------
    >>> order = RankOrder.of_hosts([(4, 5, 6, 7), (0, 1, 2, 3)])
    >>> str(order), order.ranks[1], order.is_identity
    ('4-7,0-3', 5, False)
    >>> RankOrder.parse("4-7,0-3") == order
    True
    """

    ranks: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.ranks or sorted(self.ranks) != list(range(len(self.ranks))):
            raise RankTableError(
                f'rank order "{runs(self.ranks[:8])}": there are {len(self.ranks)} processes; name each rank from 0 to '
                f"{len(self.ranks) - 1} once"
            )

    @classmethod
    def of_hosts(cls, hosts: Iterable[Sequence[int]]) -> RankOrder:
        """Return the order for an MPI that fills ``hosts`` one after the other; each host has these ranks."""
        return cls(tuple(rank for ranks in hosts for rank in sorted(ranks)))

    @classmethod
    def parse(cls, text: str) -> RankOrder:
        """Return the order that ``str`` made ``text`` of."""
        ranks: list[int] = []
        for part in text.split(","):
            match = _RUN.fullmatch(part)
            if match is None or int(match[2] or match[1]) - int(match[1]) >= 1_000_000:
                raise RankTableError(
                    f'rank order "{text[:60]}" is no list of runs such as "4-7,0-3"; start the job anew'
                )
            ranks += range(int(match[1]), int(match[2] or match[1]) + 1)
        return cls(tuple(ranks))

    @property
    def is_identity(self) -> bool:
        """Tell whether every process is the rank of its own number."""
        return self.ranks == tuple(range(len(self.ranks)))

    def __str__(self) -> str:
        """Return it as runs of consecutive ranks."""
        return runs(self.ranks)


def runs(numbers: Sequence[int]) -> str:
    """Return ``numbers`` in their order, consecutive ones as a range.

    >>> runs([4, 5, 6, 0, 2, 3])
    '4-6,0,2-3'
    """
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in found)
