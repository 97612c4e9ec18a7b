from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.planning.frame import Frame

Layouts = Callable[..., st.SearchStrategy[Layout]]


@given(data=st.data())
def test_all_hold_is_said_only_where_it_is_so(layouts: Layouts, data: st.DataObject) -> None:
    source, target = (Frame(data.draw(layouts((12, 12), max_devices=12, last_rank=11))) for _ in range(2))
    parts = tuple(data.draw(st.integers(0, cut.parts - 1)) for cut in source.cuts)
    ranges = []
    for cut in target.cuts:
        first, last = sorted(data.draw(st.tuples(*[st.integers(0, cut.parts - 1)] * 2)))
        ranges.append(range(first, last + 1))
    wanting = {rank for wanted in product(*ranges) for rank in target.holders(wanted)}
    if source.all_hold(parts, target, tuple(ranges)):
        assert wanting <= source.holder_set(parts)


@given(data=st.data())
def test_holders_are_those_whose_parts_these_are(layouts: Layouts, data: st.DataObject) -> None:
    layout = data.draw(layouts(max_devices=12, last_rank=11))
    if data.draw(st.booleans()):
        layout = layout.on_ranks(data.draw(st.permutations(range(12)))[: layout.devices.size])
    frame = Frame(layout)
    for rank in layout.devices.members:
        parts = layout.parts(rank)
        assert frame.parts(rank) == parts
        assert frame.first_holder(parts) == frame.holders(parts)[0] == layout.rank_at(parts)
        assert frame.holders(parts)[frame.replica(rank)] == rank
        assert sorted(frame.holders(parts)) == list(layout.replica_group(rank))
    assert frame.parts(99) is None


@pytest.mark.parametrize(
    ("shape", "cut", "joined"),
    [((3, 2, 2, 2), 1, (3, 2, 4)), ((2, 3, 2, 2, 2), 1, (2, 3, 8)), ((2, 2, 3, 2, 2), 2, (4, 3, 4))],
)
def test_groups_of_holders_are_known_as_the_same_where_axes_are_written_as_one(
    shape: tuple[int, ...], cut: int, joined: tuple[int, ...]
) -> None:
    frames = [
        Frame(Layout((12, 12), DeviceMatrix(devices), ((axis,), ()))) for devices, axis in ((shape, cut), (joined, 1))
    ]
    for part in range(joined[1]):
        assert frames[0].holders((part, 0)) == frames[1].holders((part, 0))
        assert frames[0].group_key((part, 0)) == frames[1].group_key((part, 0))


WIDE = DeviceMatrix((2048, 8))


@pytest.mark.parametrize(
    ("source", "target", "ranges"),
    [
        ((DeviceMatrix((16384,)), ((), ()), ()), (DeviceMatrix((12288,)), ((), ()), ()), (range(1), range(1))),
        ((WIDE, ((), ()), ()), (DeviceMatrix((1536, 8)), ((0,), (1,)), ()), (range(1536), range(8))),
        ((WIDE, ((), (1,)), ()), (DeviceMatrix((1536, 8)), ((), (1,)), ()), (range(1), range(1))),
        ((WIDE, ((), (1,)), ()), (DeviceMatrix((1536, 8)), ((0,), (1,)), ()), (range(1536), range(1))),
        ((WIDE, ((1,), ()), ()), (DeviceMatrix((1536, 8)), ((1,), ()), (0,)), (range(700), range(1))),
    ],
)
def test_strides_tell_that_all_hold_whatever_the_number_of_ranks(source, target, ranges) -> None:
    frames = [
        Frame(Layout((1 << 20, 1 << 20), devices, tensor_map, optimizer_axes=axes))
        for devices, tensor_map, axes in (source, target)
    ]
    assert frames[0].all_hold((0, 0), frames[1], ranges)
