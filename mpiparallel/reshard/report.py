"""What a reshard did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReshardReport:
    """What one reshard did, the same on every rank.

    ``bytes_moved`` were sent from rank to rank and ``bytes_kept`` stayed on their rank, both summed over the ranks:
    together they are all that the ranks hold after. ``messages`` counts the pairs of ranks that exchanged something,
    each way, in each wave. ``seconds`` is the time of the slowest rank. ``executors`` are those that moved something.
    """

    bytes_moved: int
    bytes_kept: int
    seconds: float
    messages: int
    waves: int = 1
    executors: tuple[str, ...] = ()
