"""What ranks hold already, as the search for one stage sees it."""

from __future__ import annotations

from typing import Any

import pytest

from mpiparallel.compile.staging.one_micro_batch import held_in_stages
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.configuration import ParallelConfiguration

HALVES = [Box((0,), (4,)), Box((4,), (8,))]
EVEN: Any = {"device_num": 4, "pipeline_stages": 2}
UNEVEN: Any = {"device_num": 3, "pipeline_stages": 2, "stage_ranks": ((0,), (2, 1))}


@pytest.mark.parametrize(
    ("layout", "settings", "size", "boxes"),
    [
        # Halves, once on each stage.
        (Layout((8,), DeviceMatrix((2, 2)), ((1,),)), EVEN, 2, HALVES),
        # The second stage has them alone.
        (Layout((8,), DeviceMatrix((2,), 2), ((0,),)), EVEN, 2, HALVES),
        # Quarters, or halves of which each is on both stages: no stage has the whole.
        (Layout((8,), DeviceMatrix((4,)), ((0,),)), EVEN, 2, None),
        (Layout((8,), DeviceMatrix((2, 2)), ((0,),)), EVEN, 2, None),
        # Rank 2 is the first of its stage, and has the second half.
        (Layout((8,), DeviceMatrix((2,), 1), ((0,),)), UNEVEN, 2, HALVES[::-1]),
        (Layout((8,), DeviceMatrix((2,), 1), ((0,),)), UNEVEN, 1, None),
        (Layout((8,), DeviceMatrix((1,)), ((),)), UNEVEN, 1, [Box((0,), (8,))]),
    ],
)
def test_what_a_stage_of_a_size_holds_is_told_as_if_its_ranks_were_the_first(
    layout: Layout, settings: Any, size: int, boxes: list[Box] | None
) -> None:
    found = held_in_stages({"w": layout}, ParallelConfiguration(**settings), size)
    assert set(found) == ({"w"} if boxes else set())
    if boxes:
        assert set(found["w"].devices.members) == set(range(size))
        assert [found["w"].box(rank) for rank in range(size)] == boxes
