"""Slices of one parameter, in memory, put together (what MindSpore's ``merge_sliced_parameter`` does)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem
from mpiparallel.checkpoint.transform.stored_layout import global_shape, stored_layout
from mpiparallel.errors import TransformError
from mpiparallel.layout.box import Box

Array = NDArray[Any]


def merge_slices(slices: Sequence[Array], item: LayoutItem | None = None) -> Array:
    """Return the whole of which ``slices[rank]`` is what each rank holds, as ``item`` says it is cut.

    Without ``item`` the slices follow one another along dim 0. Shards of the parallel optimizer, uneven cuts and the
    user's own bounds are put together as well. Raises ``TransformError`` or ``StrategyFileError``, a ``ValueError``
    each, for another number of slices than ranks, shapes and dtypes that do not fit, and copies that differ.

    >>> merge_slices([np.array([[1, 2]]), np.array([[3, 4]])], LayoutItem((2,), ((), (0,)))).tolist()
    [[1, 2, 3, 4]]
    """
    if not slices:
        raise TransformError("there is no slice; give those of all ranks, in the order of the ranks")
    item = LayoutItem((len(slices),), ((0,), *((),) * (slices[0].ndim - 1))) if item is None else item
    count = prod(item.device_matrix)
    if count != len(slices):
        raise TransformError(f"there are {len(slices)} slices for {count} ranks; give those of all, in their order")
    dtype = slices[0].dtype
    layout = stored_layout(item, global_shape(item, {rank: part.shape for rank, part in enumerate(slices)}))
    for rank, part in enumerate(slices):
        if part.shape != layout.local_shape(rank) or part.dtype != dtype:
            raise TransformError(
                f"the slice of rank {rank} is {part.dtype} of shape {part.shape}, where {dtype} of shape "
                f"{layout.local_shape(rank)} belongs; give the slices of one training, in the order of the ranks, and "
                "its strategy"
            )
    whole: Array = np.empty(layout.global_shape, dtype)
    first_with: dict[tuple[int, ...], int] = {}
    for rank, part in enumerate(slices):
        place: tuple[Any, ...] = (*layout.box(rank).within(Box.whole(layout.global_shape)), ...)
        here = whole[place]
        first = first_with.setdefault(layout.parts(rank), rank)
        if first == rank:
            here[...] = part
        elif here.tobytes() != part.tobytes():
            raise TransformError(
                f"ranks {first} and {rank} hold the same slice, but with other values; give the slices of one step"
            )
    return whole
