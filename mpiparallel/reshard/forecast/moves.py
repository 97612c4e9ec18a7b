"""The moves of a reshard: tensors that go the same way, counted once with the bytes of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import lcm

from mpiparallel.errors import ReshardError
from mpiparallel.layout.layout import Layout

_MOST_BYTES = 2**62


@dataclass(frozen=True)
class Way:
    """Two layouts that stand for all tensors that go from one to the other, some dims of them a multiple as long.

    Cuts that divide a dim evenly are the same for each multiple of it. So the layouts have the shortest dims that are
    cut like those of the tensors, and what moves of a tensor is what moves of them, times ``factor`` of that tensor.
    """

    source: Layout
    target: Layout


def way_of(source: Layout, target: Layout) -> tuple[Way, int]:
    """Return the way of a tensor, and how many of its elements go for each element of the way.

    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> whole, halves = (Layout((30, 7), DeviceMatrix((2,)), cuts) for cuts in (((), ()), ((0,), ())))
    >>> way, factor = way_of(whole, halves)
    >>> way.target.global_shape, factor
    ((2, 1), 105)
    """
    if source.bounds or target.bounds:
        return Way(source, target), 1
    shape, factor = [], 1
    for extent, given, taken in zip(source.global_shape, source.cuts, target.cuts, strict=True):
        shortest = lcm(given, taken)
        if extent % shortest:
            shortest = extent
        shape.append(shortest)
        factor *= extent // shortest
    return Way(_of_shape(source, tuple(shape)), _of_shape(target, tuple(shape))), factor


def _of_shape(layout: Layout, shape: tuple[int, ...]) -> Layout:
    return layout if layout.global_shape == shape else replace(layout, global_shape=shape)


def check_sizes(layouts: Mapping[str, tuple[Layout, Layout]], itemsizes: Mapping[str, int] | None) -> None:
    """Raise ReshardError where an itemsize is missing or the bytes of all ranks cannot be counted in 64 bits."""
    for tensor in sorted(() if itemsizes is None else layouts.keys() - itemsizes.keys())[:1]:
        raise ReshardError(f"{tensor}: itemsizes has no entry for it; give the bytes of an element of each tensor")
    total = 0
    for tensor, (source, target) in layouts.items():
        here = (1 if itemsizes is None else itemsizes[tensor]) * max(source.devices.size, target.devices.size)
        for extent in source.global_shape:
            here *= extent
        total += here
        if total >= _MOST_BYTES:
            raise ReshardError(
                f"{tensor}: with its shape {source.global_shape} the ranks would hold more than {_MOST_BYTES} bytes; "
                "check the shape"
            )


def gather_ways(
    layouts: Mapping[str, tuple[Layout, Layout]], itemsizes: Mapping[str, int] | None
) -> dict[Way, dict[str, int]]:
    """Return the ways of all tensors that have elements, each with its tensors and the bytes of one element of the way.

    ``itemsizes`` has the bytes of an element of each tensor, 1 where it is None.
    """
    found: dict[Way, dict[str, int]] = {}
    for tensor, (source, target) in layouts.items():
        way, factor = way_of(source, target)
        if factor and 0 not in way.source.global_shape:
            found.setdefault(way, {})[tensor] = factor * (1 if itemsizes is None else itemsizes[tensor])
    return found
