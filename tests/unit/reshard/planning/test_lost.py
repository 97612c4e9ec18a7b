"""Which tensors are gone with ranks: those of which they alone held elements."""

from __future__ import annotations

import pytest

from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.planning.lost import lost_tensors

LAYOUTS = {
    # Ranks 0 and 1 hold the first half, 2 and 3 the second.
    "halves": Layout((8,), DeviceMatrix((2, 2)), ((0,),)),
    "copies": Layout((8,), DeviceMatrix((3,)), ((),)),
    "alone": Layout((8,), DeviceMatrix((1,), 5), ((),)),
    # Of two elements in three parts the last part is empty.
    "few": Layout((2,), DeviceMatrix((3,), 1), ((0,),)),
    "named": Layout((4,), DeviceMatrix((2,), ranks=(7, 4)), ((0,),)),
}


@pytest.mark.parametrize(
    ("absent", "wanted"),
    [
        ([], []),
        ([0], []),
        ([0, 2], ["few"]),
        ([0, 1], ["few", "halves"]),
        ([2, 3], ["few", "halves"]),
        ([3], []),
        ([0, 1, 2], ["copies", "few", "halves"]),
        ([5, 5, 6], ["alone"]),
        ([4], ["named"]),
        ([7, 99], ["named"]),
        (range(8), ["alone", "copies", "few", "halves", "named"]),
    ],
)
def test_a_tensor_is_lost_where_all_are_gone_that_held_an_element(absent: list[int], wanted: list[str]) -> None:
    assert lost_tensors(LAYOUTS, absent) == wanted
    # In order, however they are given.
    assert lost_tensors(dict(reversed(LAYOUTS.items())), {*absent}) == wanted
