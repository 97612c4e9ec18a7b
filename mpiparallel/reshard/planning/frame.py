"""What a layout says whatever the shape of its tensor: which ranks hold which parts, the same for all cut alike."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from itertools import product

from mpiparallel.errors import ReshardError
from mpiparallel.layout.cut import Cut
from mpiparallel.layout.layout import Layout

Parts = tuple[int, ...]
PartRanges = tuple[range | tuple[int, ...], ...]
_Steps = list[tuple[int, int]]


class Frame:
    """The ranks and parts of all layouts that differ in their global shape alone; all questions are answered once.

    ``absent`` ranks hold nothing, whatever the layout says.
    """

    def __init__(self, layout: Layout, absent: frozenset[int] = frozenset()) -> None:
        self._layout = layout
        self._absent = absent
        self.devices = layout.devices
        self.cuts: tuple[Cut, ...] = layout.dim_cuts
        self.replica_count = layout.replica_count
        self._parts: dict[int, Parts | None] = {}
        self._replicas: dict[int, int] = {}
        self._ranks: dict[Parts, int] = {}
        self._holders: dict[Parts, Sequence[int]] = {}
        self._holder_sets: dict[Parts, frozenset[int]] = {}

    def parts(self, rank: int) -> Parts | None:
        """Return the parts that ``rank`` holds, None where it holds nothing."""
        if rank not in self._parts:
            holds = rank in self.devices and rank not in self._absent
            self._parts[rank] = self._layout.parts(rank) if holds else None
        return self._parts[rank]

    def replica(self, rank: int) -> int:
        """Return which of the holders of its parts ``rank`` is."""
        if rank not in self._replicas:
            replica = self._layout.replica(rank)
            self._replicas[rank] = self.holders(self._layout.parts(rank)).index(rank) if self._absent else replica
        return self._replicas[rank]

    def only_holder(self, parts: Parts) -> int:
        """Return the rank that holds ``parts`` where there are no replicas; raise ReshardError if it is absent."""
        rank = self.first_holder(parts)
        if rank in self._absent:
            raise ReshardError(f"rank {rank} alone held part {parts} of a tensor, and it is absent")
        return rank

    def first_holder(self, parts: Parts) -> int:
        """Return the rank of replica 0 of ``parts``."""
        if parts not in self._ranks:
            self._ranks[parts] = self._layout.rank_at(parts)
        return self._ranks[parts]

    def holders(self, parts: Parts) -> Sequence[int]:
        """Return the ranks that hold ``parts``, by replica."""
        if parts not in self._holders:
            place = sum(self._place(dim, part) for dim, part in enumerate(parts))
            members = self.devices.members
            everyone = (members[place + offset] for offset in self._replica_places)
            self._holders[parts] = tuple(rank for rank in everyone if rank not in self._absent)
            if not self._holders[parts]:
                raise ReshardError(f"all ranks that held part {parts} of a tensor are absent")
        return self._holders[parts]

    def holder_set(self, parts: Parts) -> frozenset[int]:
        """Return the ranks that hold ``parts``."""
        if parts not in self._holder_sets:
            self._holder_sets[parts] = frozenset(self.holders(parts))
        return self._holder_sets[parts]

    def group_key(self, parts: Parts) -> Hashable:
        """Return what is equal for two groups of holders when they are the same ranks in the same order."""
        if self.devices.ranks:
            return self.holders(parts)
        return self.first_holder(parts), self._merged_replica_steps

    def all_hold(self, parts: Parts, wanting: Frame, ranges: PartRanges) -> bool:
        """Return whether every rank that holds one of ``ranges`` of ``wanting`` holds ``parts`` of this frame.

        Found by arithmetic, from strides: False also where they do not tell.
        """
        if self.devices.ranks or wanting.devices.ranks:
            return False
        steps = list(wanting._merged_replica_steps)
        lowest = []
        for dim, wanted in enumerate(ranges):
            first_part, block = wanting._block(dim, wanted)
            steps += block
            lowest.append(first_part)
        first = wanting.first_holder(tuple(lowest))
        place, reach = first - self.devices.first_rank, sum((extent - 1) * stride for extent, stride in steps)
        if place < 0 or place + reach >= self.devices.size:
            return False
        cutting = [step for dim in range(len(self.cuts)) for step in self._steps(dim)]
        return self.parts(first) == parts and all(
            place % stride + sum((n - 1) * step for n, step in steps if step % (stride * extent)) < stride
            for extent, stride in cutting
        )

    def _steps(self, dim: int) -> _Steps:
        """Return extent and stride of the axes that cut ``dim``, major first."""
        axes = self._layout.cutting_axes[dim]
        return [(self.devices.shape[axis], self.devices.strides[axis]) for axis in axes if self.devices.shape[axis] > 1]

    def _block(self, dim: int, wanted: range | tuple[int, ...]) -> tuple[int, _Steps]:
        """Return the first part, and the axes run in full, of the least block of parts of ``dim`` around ``wanted``."""
        steps = self._steps(dim)
        block: _Steps = []
        length = 1
        while wanted[0] // length != wanted[-1] // length:
            block.append(steps.pop())
            length *= block[-1][0]
        return wanted[0] // length * length, block

    def _place(self, dim: int, part: int) -> int:
        place = 0
        for extent, stride in reversed(self._steps(dim)):
            part, index = divmod(part, extent)
            place += index * stride
        return place

    @cached_property
    def _replica_steps(self) -> _Steps:
        axes = self._layout.replica_axes
        return [(self.devices.shape[axis], self.devices.strides[axis]) for axis in axes]

    @cached_property
    def _merged_replica_steps(self) -> tuple[tuple[int, int], ...]:
        merged: _Steps = []
        for extent, stride in self._replica_steps:
            if merged and merged[-1][1] == extent * stride:
                merged[-1] = (merged[-1][0] * extent, stride)
            elif extent > 1:
                merged.append((extent, stride))
        return tuple(merged)

    @cached_property
    def _replica_places(self) -> list[int]:
        ranges = [range(0, extent * stride, stride) for extent, stride in self._replica_steps]
        return [sum(offsets) for offsets in product(*ranges)]
