"""A digest of layouts, by which ranks compare in a few bytes whether they were given the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256

from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

LayoutPair = tuple[Layout, Layout]
_Cut = tuple[object, ...]


def plan_digest(layouts: Mapping[str, LayoutPair]) -> bytes:
    """Return 32 bytes that are equal on two ranks when, and in practice only when, their layouts are equal.

    Tensors are taken by name. What tensors that are cut alike have in common is written once.

    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> whole, halves = (Layout((6,), DeviceMatrix((2,)), tensor_map) for tensor_map in (((),), ((0,),)))
    >>> plan_digest({"weight": (whole, halves)}) == plan_digest({"weight": (halves, whole)})
    False
    """
    numbers: dict[tuple[DeviceMatrix, _Cut], int] = {}
    known: dict[Layout, int] = {}
    tensors = []
    for tensor in sorted(layouts):
        source, target = layouts[tensor]
        for layout in (source, target):
            if layout not in known:
                known[layout] = numbers.setdefault((layout.devices, _cut(layout)), len(numbers))
        tensors.append((tensor, source.global_shape, target.global_shape, known[source], known[target]))
    told = [(devices.shape, devices.first_rank, devices.ranks, *cut) for devices, cut in numbers]
    return sha256(json.dumps([told, tensors], default=int).encode()).digest()


def _cut(layout: Layout) -> _Cut:
    return (layout.tensor_map, layout.optimizer_axes, layout.partial, layout.reduction, layout.bounds)
