"""Which parts of two layouts overlap, by how much, and which are the same."""

from __future__ import annotations

import pytest

from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.forecast.part_overlaps import part_bounds_of_dim, part_overlaps


@pytest.mark.parametrize(
    ("shape", "parts", "wanted"),
    [
        ((), (1, 1), [(0, 0, 1, True)]),
        ((6,), (2, 2), [(0, 0, 3, True), (1, 1, 3, True)]),
        ((6,), (2, 3), [(0, 0, 2, False), (0, 1, 1, False), (1, 1, 1, False), (1, 2, 2, False)]),
    ],
)
def test_overlaps_of_parts_tell_which_are_the_same(shape, parts, wanted) -> None:
    layouts = (Layout(shape, DeviceMatrix((count,)), ((0,),) if shape else ()) for count in parts)
    found = part_overlaps(*layouts)
    columns = (found.source, found.target, found.size, found.same)
    assert [*zip(*(column.tolist() for column in columns), strict=True)] == wanted


def test_overlaps_of_matrices_are_the_intersections_of_their_boxes() -> None:
    source, target = (Layout((5, 7), DeviceMatrix(parts), ((0,), (1,))) for parts in ((2, 3), (3, 2)))
    wanted = {}
    for giver in range(6):
        for taker in range(6):
            shared = source.box(giver).intersection(target.box(taker))
            if shared is not None:
                wanted[giver, taker] = (shared.size, source.box(giver) == target.box(taker))
    found = part_overlaps(source, target)
    pairs = zip(found.source.tolist(), found.target.tolist(), strict=True)
    assert dict(zip(pairs, zip(found.size.tolist(), found.same.tolist(), strict=True), strict=True)) == wanted


@pytest.mark.parametrize(
    ("layout", "wanted"),
    [
        (Layout((7,), DeviceMatrix((3,)), ((0,),)), ([0, 3, 5], [3, 5, 7])),
        (Layout((2,), DeviceMatrix((3,)), ((0,),)), ([0, 1, 2], [1, 2, 2])),
        (Layout((7,), DeviceMatrix((2, 2)), ((0,),), optimizer_axes=(1,)), ([0, 2, 4, 6], [2, 4, 6, 7])),
        (Layout((7,), DeviceMatrix((2, 2)), ((),), optimizer_axes=(0, 1)), ([0, 2, 4, 6], [2, 4, 6, 7])),
        (Layout((7,), DeviceMatrix((2,)), ((0,),)).with_bounds([((0, 1), (1, 7))]), ([0, 1], [1, 7])),
        (Layout((7,), DeviceMatrix((2,)), ((),)), ([0], [7])),
    ],
    ids=str,
)
def test_parts_of_a_dim_begin_and_end_where_their_boxes_do(layout: Layout, wanted: tuple[list[int], list[int]]) -> None:
    starts, stops = part_bounds_of_dim(layout, 0)
    assert (starts.tolist(), stops.tolist()) == wanted
    boxes = {layout.box(rank) for rank in layout.devices.members}
    assert boxes == {layout.box_of_parts((part,)) for part in range(len(starts))}
