"""The moves of a reshard: tensors with alike layouts before and after, counted once with the bytes of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import lcm

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ReshardError
from mpiparallel.layout.layout import Layout

_MOST_BYTES = 2**62


@dataclass(frozen=True)
class ReducedLayoutPair:
    """Two layouts for all tensors that move alike from one to the other, though their dims may be multiples of these.

    Cuts that divide a dim evenly are the same for each multiple of it. So the layouts have the shortest dims that are
    cut like those of the tensors. A tensor moves ``factor`` times as many elements as they do.
    """

    source: Layout
    target: Layout


def reduced_pair_of(source: Layout, target: Layout) -> tuple[ReducedLayoutPair, int]:
    """Return the reduced pair of a tensor, and how many of its elements go for each element of the pair.

    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> whole, halves = (Layout((30, 7), DeviceMatrix((2,)), cuts) for cuts in (((), ()), ((0,), ())))
    >>> reduced, factor = reduced_pair_of(whole, halves)
    >>> reduced.target.global_shape, factor
    ((2, 1), 105)
    """
    if source.bounds or target.bounds:
        return ReducedLayoutPair(source, target), 1
    shape, factor = [], 1
    for extent, given, taken in zip(source.global_shape, source.cuts, target.cuts, strict=True):
        shortest = lcm(given, taken)
        if extent % shortest:
            shortest = extent
        shape.append(shortest)
        factor *= extent // shortest
    return ReducedLayoutPair(_of_shape(source, tuple(shape)), _of_shape(target, tuple(shape))), factor


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


def gather_reduced_pairs(
    layouts: Mapping[str, tuple[Layout, Layout]], itemsizes: Mapping[str, int] | None
) -> dict[ReducedLayoutPair, dict[str, int]]:
    """Return the reduced pairs of all tensors that have elements, with their tensors and the bytes of an element.

    ``itemsizes`` has the bytes of an element of each tensor, 1 where it is None.
    """
    found: dict[ReducedLayoutPair, dict[str, int]] = {}
    for tensor, (source, target) in layouts.items():
        reduced, factor = reduced_pair_of(source, target)
        if factor and 0 not in reduced.source.global_shape:
            found.setdefault(reduced, {})[tensor] = factor * (1 if itemsizes is None else itemsizes[tensor])
    return found
