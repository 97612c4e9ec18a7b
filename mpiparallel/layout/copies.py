"""Copies of a tensor on several groups of ranks as one layout, and back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import product
from math import prod

from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

Copy = tuple[int, ...]


def joined(layouts: Sequence[Layout]) -> Layout | None:
    """Return the layout over the ranks of all, in which each rank holds what it did; None where their cuts differ.

    >>> halves = Layout((8,), DeviceMatrix((2,)), ((0,),))
    >>> both = joined([halves, halves.on_ranks([5, 4])])
    >>> both.box(1), both.box(4), both.replica_group(0)
    (Box(start=(4,), stop=(8,)), Box(start=(4,), stop=(8,)), (0, 5))
    >>> joined([halves, Layout.replicated((8,), DeviceMatrix((2,), 2))]) is None
    True
    """
    first, *others = layouts
    if not others:
        return first
    if any(_cut(one) != _cut(first) for one in others):
        return None
    return _over(first, [copy for one in layouts for copy in _copies(one)])


def restricted(layout: Layout, ranks: Collection[int]) -> Layout | None:
    """Return the layout of the copies on ``ranks`` alone; None unless these hold some copies, each whole.

    >>> restricted(Layout((8,), DeviceMatrix((2, 2)), ((1,),)), [2, 3]).box(3)
    Box(start=(4,), stop=(8,))
    """
    if set(layout.devices.members) == set(ranks):
        return layout
    held = [copy for copy in _copies(layout) if set(copy) <= set(ranks)]
    return _over(layout, held) if {rank for copy in held for rank in copy} == set(ranks) else None


def includes(layout: Layout, part: Layout) -> bool:
    """Return whether the ranks of ``part`` hold by ``layout`` what they do by it, in copies of their own.

    >>> halves = Layout((8,), DeviceMatrix((2,)), ((0,),))
    >>> includes(Layout((8,), DeviceMatrix((2, 2)), ((1,),)), halves), includes(halves, halves.on_ranks([1, 0]))
    (True, False)
    """
    if layout.canonical == part.canonical:
        return True
    ranks = part.devices.members
    if layout.devices.size == part.devices.size or restricted(layout, ranks) is None:
        return False
    return all(layout.box(rank) == part.box(rank) for rank in ranks)


def _copies(layout: Layout) -> list[Copy]:
    """Return the ranks of each copy, part after part."""
    parts = [*product(*map(range, layout.cuts))]
    return [tuple(layout.rank_at(part, replica) for part in parts) for replica in range(layout.replica_count)]


def _cut(layout: Layout) -> tuple[object, ...]:
    return layout.global_shape, layout.dim_cuts, layout.partial, layout.bounds


def _over(layout: Layout, copies: Sequence[Copy]) -> Layout:
    """Return the layout that is cut like another, over these copies: the first axis counts them."""
    shards = prod(layout.devices.shape[axis] for axis in layout.optimizer_axes)
    shape, tensor_map = [len(copies)], []
    for dim, cut in enumerate(layout.cuts):
        tensor_map.append((len(shape),))
        shape += [cut] if dim else [cut // shards, shards]
    devices = DeviceMatrix(tuple(shape), ranks=tuple(rank for copy in copies for rank in copy))
    optimizer_axes = (2,) if layout.optimizer_axes else ()
    return Layout(
        layout.global_shape, devices, tuple(tensor_map), optimizer_axes=optimizer_axes, bounds=layout.bounds
    ).canonical
