"""Where outputs are moved at once because a strategy says so."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from mpiparallel.errors import StrategyError
from mpiparallel.graph.operator import Strategy
from mpiparallel.layout.layout import Layout

Axes = tuple[int, ...]


def place_outputs(name: str, outputs: Sequence[Layout], strategy: Strategy) -> tuple[Layout, ...]:
    """Return the layouts of the outputs of operator ``name`` that are cut as a strategy says.

    They keep the axes that cut a dim, and take those over which an output is partial before those of replicas. So what
    is summed and cut further needs one ReduceScatter. Raises StrategyError where the strategy does not fit.
    """
    if len(strategy) != len(outputs):
        raise StrategyError(
            f"{name}: out_strategy {strategy} has {len(strategy)} entries for {len(outputs)} outputs; give each one"
        )
    return tuple(
        _place(f"{name}: output {index}", *pair) for index, pair in enumerate(zip(outputs, strategy, strict=True))
    )


def _place(subject: str, layout: Layout, cuts: tuple[int, ...]) -> Layout:
    devices, parts = layout.devices, prod(cuts)
    if len(cuts) != len(layout.global_shape):
        raise StrategyError(
            f"{subject} has {len(layout.global_shape)} dims, but its out_strategy {cuts} has {len(cuts)} cuts; give "
            "each dim one"
        )
    if devices.size % parts:
        raise StrategyError(
            f"{subject}: out_strategy {cuts} cuts into {parts} parts, which does not divide the {devices.size} "
            f"devices; choose cuts whose product divides {devices.size}"
        )
    finest = layout.reshaped_devices(tuple(factor for extent in devices.shape for factor in _factors(extent)))
    return Layout(layout.global_shape, finest.devices, _nested(finest, cuts)).canonical


def _factors(extent: int) -> list[int]:
    """Return the prime factors, ascending.

    >>> _factors(12)
    [2, 2, 3]
    """
    found, factor = [], 2
    while extent > 1:
        while extent % factor == 0:
            found.append(factor)
            extent //= factor
        factor += 1
    return found


def _nested(layout: Layout, cuts: tuple[int, ...]) -> tuple[Axes, ...]:
    """Return the axes that cut the dims so, each beginning with those that do already.

    All axes are of a prime, so there are enough for any cuts whose product divides the devices.
    """
    shape = layout.devices.shape
    kept = [_leading(axes, cut, shape) for axes, cut in zip(layout.tensor_map, cuts, strict=True)]
    left = [axis for whole, part in zip(layout.tensor_map, kept, strict=True) for axis in whole[len(part) :]]
    free = [*layout.partial, *layout.replica_axes, *left]
    found = []
    for axes, cut in zip(kept, cuts, strict=True):
        missing = cut // prod(shape[axis] for axis in axes)
        taken = _leading(free, missing, shape, skips=True)
        free = [axis for axis in free if axis not in taken]
        found.append((*axes, *taken))
    return tuple(found)


def _leading(axes: Sequence[int], cut: int, shape: tuple[int, ...], skips: bool = False) -> Axes:
    """Return the first axes whose extents have a product that divides ``cut``; ``skips`` leaves others out."""
    taken: list[int] = []
    for axis in axes:
        if cut % shape[axis] == 0:
            taken.append(axis)
            cut //= shape[axis]
        elif not skips:
            break
    return tuple(taken)
