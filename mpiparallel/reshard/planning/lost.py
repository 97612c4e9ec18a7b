"""What is gone with ranks: tensors of which they alone held a part."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mpiparallel.layout.layout import Layout


def lost_tensors(layouts: Mapping[str, Layout], absent: Collection[int]) -> list[str]:
    """Return the names of the tensors with elements that only ``absent`` ranks held, in order.

    >>> from mpiparallel.layout.device_matrix import DeviceMatrix
    >>> replicas, halves = (Layout((6,), DeviceMatrix((2,)), tensor_map) for tensor_map in (((),), ((0,),)))
    >>> lost_tensors({"moment": halves, "weight": replicas}, [1])
    ['moment']
    """
    gone = frozenset(absent)
    return sorted(name for name, layout in layouts.items() if _has_lost(layout, gone))


def _has_lost(layout: Layout, gone: frozenset[int]) -> bool:
    return any(
        gone.issuperset(layout.replica_group(rank)) and not layout.box(rank).empty
        for rank in gone
        if rank in layout.devices
    )
