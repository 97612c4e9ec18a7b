from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product

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


DEVICES = DeviceMatrix((2, 2, 2))
FEW = [
    Layout((8, 8), DEVICES, tensor_map)
    for tensor_map in (((), ()), ((0,), ()), ((1,), (0,)), ((2, 0), ()), ((), (1, 2)), ((0, 1, 2), ()))
]
OTHERS = [
    Layout((8, 8), DeviceMatrix((4,), 2), ((0,), ())),
    Layout((8, 8), DeviceMatrix((3,)), ((), ())),
    Layout((8, 8), DeviceMatrix((2, 2), 4), ((), (0,))),
    Layout((8, 8), DeviceMatrix((2, 6)), ((), (1,))),
]


def ranges_of(layout: Layout) -> list[tuple[range, ...]]:
    dims = [[range(start, stop) for start, stop in combinations(range(parts + 1), 2)] for parts in layout.cuts]
    return list(product(*dims))


@pytest.mark.parametrize("target", range(len(FEW + OTHERS)))
def test_whoever_is_said_to_hold_a_part_holds_it(target: int) -> None:
    wanting = Frame((FEW + OTHERS)[target])
    for source in map(Frame, FEW + OTHERS):
        for parts in product(*(range(cut.parts) for cut in source.cuts)):
            for ranges in ranges_of((FEW + OTHERS)[target]):
                ranks = {rank for wanted in product(*ranges) for rank in wanting.holders(wanted)}
                if source.all_hold(parts, wanting, ranges):
                    assert ranks <= source.holder_set(parts)


@pytest.mark.parametrize("layout", FEW[1:], ids=str)
def test_the_holders_of_a_part_are_known_to_hold_it_and_those_of_another_not_to(layout: Layout) -> None:
    frame = Frame(layout)
    for parts in product(*(range(cut.parts) for cut in frame.cuts)):
        for others in product(*(range(cut.parts) for cut in frame.cuts)):
            ranges = tuple(range(part, part + 1) for part in others)
            assert frame.all_hold(parts, frame, ranges) is (parts == others)


def test_ranks_that_are_given_one_by_one_are_looked_at_one_by_one() -> None:
    listed = Frame(FEW[1].on_ranks((1, 0, 2, 3, 4, 5, 6, 7)))
    plain = Frame(FEW[1])
    whole = (range(2), range(1))
    assert not listed.all_hold((0, 0), plain, whole)
    assert not plain.all_hold((0, 0), listed, whole)
    assert listed.group_key((0, 0)) == listed.holders((0, 0)) == (1, 0, 2, 3)
    assert plain.group_key((0, 0)) != plain.group_key((1, 0))


def test_absent_ranks_hold_nothing_and_the_others_are_counted_without_them() -> None:
    frame = Frame(FEW[1], frozenset({1, 4}))
    assert [frame.parts(rank) for rank in range(9)] == [
        (0, 0), None, (0, 0), (0, 0), None, (1, 0), (1, 0), (1, 0), None,
    ]  # fmt: skip
    assert (frame.holders((0, 0)), frame.holders((1, 0))) == ((0, 2, 3), (5, 6, 7))
    assert [frame.replica(rank) for rank in (0, 2, 3, 5, 6, 7)] == [0, 1, 2, 0, 1, 2]
    assert frame.holder_set((1, 0)) == {5, 6, 7}
    assert frame.replica_count == 4
    assert Frame(FEW[5]).only_holder((6, 0)) == 6
