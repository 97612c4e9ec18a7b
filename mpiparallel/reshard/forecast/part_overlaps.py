"""Which parts of a source layout meet which parts of a target layout, for all parts at once, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.dataclass import dataclass
from mpiparallel.layout.layout import Layout

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class PartOverlaps:
    """The pairs of a source part and a target part that share elements.

    ``source`` and ``target`` are indices of parts: all dims in one number, the first dim major. ``size`` counts the
    elements that both hold. ``same`` is True where the two parts are one box.
    """

    source: Integers
    target: Integers
    size: Integers
    same: NDArray[np.bool_]


def part_ranks(layout: Layout) -> Integers:
    """Return the ranks that hold each part: one row a part, one column a replica.

    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> part_ranks(Layout((8,), DeviceMatrix((2, 3)), ((1,),))).tolist()
    [[0, 3], [1, 4], [2, 5]]
    """
    devices = layout.devices
    cutting = [axis for axes in layout.cutting_axes for axis in axes]
    members = np.asarray(devices.members, np.int64).reshape(devices.shape)
    ordered = members.transpose(*cutting, *layout.replica_axes)
    return ordered.reshape(-1, layout.replica_count)


def part_bounds_of_dim(layout: Layout, dim: int) -> tuple[Integers, Integers]:
    """Return the starts and the stops of all parts of a dim.

    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> starts, stops = part_bounds_of_dim(Layout((10,), DeviceMatrix((4,)), ((0,),)), 0)
    >>> starts.tolist(), stops.tolist()
    ([0, 3, 6, 8], [3, 6, 8, 10])
    """
    if layout.bounds and layout.bounds[dim]:
        given: Integers = np.array(layout.bounds[dim], np.int64)
        return given[:, 0], given[:, 1]
    parts, shards = layout.cuts[dim], 1
    if dim == 0:
        for axis in layout.optimizer_axes:
            shards *= layout.devices.shape[axis]
    starts, stops = _even(np.int64(layout.global_shape[dim]), parts // shards)
    if shards == 1:
        return starts, stops
    first, last = _even((stops - starts)[:, None], shards)
    return (starts[:, None] + first).ravel(), (starts[:, None] + last).ravel()


def _even(extent: Any, parts: int) -> tuple[Integers, Integers]:
    """Return the bounds of each of ``parts`` of ``extent`` elements, as ``layout.box.part_bounds`` has them."""
    index = np.arange(parts, dtype=np.int64)
    size, larger = np.divmod(extent, parts)
    starts = index * size + np.minimum(index, larger)
    return starts, starts + size + (index < larger)


def part_overlaps(source: Layout, target: Layout) -> PartOverlaps:
    """Return all overlaps of the parts of two layouts of one global shape; the parts of ``source`` may not overlap.

    The work is that of the overlaps, whatever the sizes.

    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> halves, thirds = (Layout((6,), DeviceMatrix((parts,)), ((0,),)) for parts in (2, 3))
    >>> part_overlaps(halves, thirds).size.tolist()
    [2, 1, 1, 2]
    """
    found = PartOverlaps(np.zeros(1, np.int64), np.zeros(1, np.int64), np.ones(1, np.int64), np.ones(1, bool))
    for dim in range(len(source.global_shape)):
        here = _of_dim(part_bounds_of_dim(source, dim), part_bounds_of_dim(target, dim))
        found = PartOverlaps(
            (found.source[:, None] * source.cuts[dim] + here.source).ravel(),
            (found.target[:, None] * target.cuts[dim] + here.target).ravel(),
            (found.size[:, None] * here.size).ravel(),
            (found.same[:, None] & here.same).ravel(),
        )
    return found


def _of_dim(source: tuple[Integers, Integers], target: tuple[Integers, Integers]) -> PartOverlaps:
    source_starts, source_stops = source
    target_starts, target_stops = target
    # Parts of a source follow each other, so those that meet a target part do too.
    first = np.searchsorted(source_stops, target_starts, side="right")
    last = np.searchsorted(source_starts, target_stops, side="left")
    counts = np.maximum(last - first, 0)
    taker = np.repeat(np.arange(target_starts.size), counts)
    giver = np.arange(taker.size) - np.repeat(np.cumsum(counts) - counts - first, counts)
    starts = np.maximum(source_starts[giver], target_starts[taker])
    stops = np.minimum(source_stops[giver], target_stops[taker])
    same = (source_starts[giver] == target_starts[taker]) & (source_stops[giver] == target_stops[taker])
    shared = stops > starts
    return PartOverlaps(giver[shared], taker[shared], (stops - starts)[shared], same[shared])
