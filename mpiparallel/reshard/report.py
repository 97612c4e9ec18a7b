"""What a reshard did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReshardReport:
    """What one reshard did, the same on every rank.

    Parameters
    ----------
    bytes_moved, bytes_kept : int
        What was sent from rank to rank, and what stayed on its rank, both summed over the ranks. Together they are all
        that the ranks hold after.
    seconds : float
        Of the slowest rank.
    messages : int
        The pairs of ranks that exchanged something, each way, in each wave.
    waves : int
        How many.
    executors : tuple of str
        Those that moved something.

    Examples
    --------
    >>> ReshardReport(bytes_moved=6, bytes_kept=2, seconds=0.1, messages=2).waves
    1
    """

    bytes_moved: int
    bytes_kept: int
    seconds: float
    messages: int
    waves: int = 1
    executors: tuple[str, ...] = ()
