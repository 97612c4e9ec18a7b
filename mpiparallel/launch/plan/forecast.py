"""What a plan says of a reshard, as plain numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from mpiparallel.dataclass import dataclass


@dataclass(frozen=True)
class Spread:
    """The least, the middle and the most of a rank."""

    least: int
    median: int
    most: int


@dataclass(frozen=True)
class TensorBytes:
    """A tensor, how many bytes of it go from rank to rank, and how it is cut before and after."""

    name: str
    moved: int
    source: str
    target: str


@dataclass(frozen=True)
class Relabeled:
    """Which rank takes each place of the target, and what moves without it; ``ranks`` is empty where none is better."""

    ranks: tuple[int, ...]
    moved_before: int
    threshold: float


@dataclass(frozen=True)
class Seconds:
    """The estimated time, and what it is made of: the busiest host's memory and its link, in seconds and bytes/s."""

    within: float
    between: float
    memory_rate: float
    link_rate: float
    link_is_given: bool

    @property
    def total(self) -> float:
        """The sum of both: where they overlap it takes less."""
        return self.within + self.between


@dataclass(frozen=True)
class MoveForecast:
    """What a reshard from ``source`` to ``target`` takes, in bytes; every number is exact but the seconds.

    ``per_rank`` has by name what ranks hold, keep, send and need. ``moved`` is ``within_hosts`` and ``between_hosts``.
    ``matrix`` has the bytes from each block of ranks (rows) to each (columns), blocks of ``block_ranks`` ranks.
    """

    source: str
    target: str
    source_ranks: int
    target_ranks: int
    hosts: int
    ranks_per_host: int
    tensors: int
    state: int
    scratch: int
    per_rank: Mapping[str, Spread]
    stays: int
    moved: int
    within_hosts: int
    between_hosts: int
    messages: int
    largest: tuple[TensorBytes, ...]
    still: int
    seconds: Seconds
    relabeled: Relabeled | None
    block_starts: tuple[int, ...]
    matrix: tuple[tuple[int, ...], ...]

    def as_json(self) -> str:
        """Return everything as JSON, bytes and seconds."""
        return json.dumps(asdict(self), indent=1)
