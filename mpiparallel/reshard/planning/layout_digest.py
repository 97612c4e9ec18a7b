"""A digest of layouts, by which ranks compare in a few bytes whether they were given the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256

from mpiparallel.layout.layout import Layout

LayoutPair = tuple[Layout, Layout]


def plan_digest(layouts: Mapping[str, LayoutPair]) -> bytes:
    """Return 32 bytes that are equal on two ranks when, and in practice only when, their layouts are equal.

    Tensors are taken by name. What tensors that move alike have in common is written once.

    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> whole, halves = (Layout((6,), DeviceMatrix((2,)), tensor_map) for tensor_map in (((),), ((0,),)))
    >>> plan_digest({"weight": (whole, halves)}) == plan_digest({"weight": (halves, whole)})
    False
    """
    numbers: dict[LayoutPair, int] = {}
    # Pairs are held meanwhile, and objects are compared faster than what they say.
    seen: dict[tuple[int, int], int] = {}
    tensors = []
    for tensor in sorted(layouts):
        source, target = layouts[tensor]
        number = seen.get((id(source), id(target)))
        if number is None:
            number = seen[id(source), id(target)] = numbers.setdefault((source, target), len(numbers))
        tensors.append((tensor, number))
    told = [[_told(layout) for layout in pair] for pair in numbers]
    return sha256(json.dumps([told, tensors], default=int).encode()).digest()


def _told(layout: Layout) -> tuple[object, ...]:
    devices, cut = layout.devices, (layout.tensor_map, layout.optimizer_axes, layout.partial, layout.reduction)
    return (layout.global_shape, devices.shape, devices.first_rank, devices.ranks, *cut, layout.bounds)
