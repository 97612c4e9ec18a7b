from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.errors import LayoutError
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Bounds, Layout, TensorMap

Layouts = Callable[..., st.SearchStrategy[Layout]]


def ranks_of(layout: Layout) -> range:
    return range(layout.devices.first_rank, layout.devices.first_rank + layout.devices.size)


@given(data=st.data())
def test_a_layout_on_other_ranks_gives_each_the_box_of_its_place(layouts: Layouts, data: st.DataObject) -> None:
    layout = data.draw(layouts(partial=True))
    ranks = data.draw(st.permutations(range(12)))[: layout.devices.size]
    moved = layout.on_ranks(ranks)
    other = dict(zip(ranks_of(layout), ranks, strict=True))
    for here, there in other.items():
        for one in (moved, moved.canonical):
            assert one.box(there) == layout.box(here)
            assert one.replica_group(there) == tuple(sorted(other[rank] for rank in layout.replica_group(here)))
            assert one.partial_group(there) == tuple(sorted(other[rank] for rank in layout.partial_group(here)))
        # Of ranks that hold terms it is the first.
        assert moved.rank_at(moved.parts(there), moved.replica(there)) == other[layout.partial_group(here)[0]]
    assert moved.on_ranks(ranks_of(layout)) == layout


def split(local: list[np.ndarray], layout: Layout, axes: tuple[int, ...], dim: int) -> list[np.ndarray]:
    """Cut what each rank holds along ``dim`` by NumPy alone."""
    extents = [layout.devices.shape[axis] for axis in axes]
    pieces = []
    for rank, held in zip(ranks_of(layout), local, strict=True):
        here = [layout.devices.coordinates(rank)[axis] for axis in axes]
        index = int(np.ravel_multi_index(here, extents)) if axes else 0
        pieces.append(np.array_split(held, prod(extents), axis=dim)[index])
    return pieces


@given(data=st.data())
def test_boxes_are_what_array_split_gives(layouts: Layouts, data: st.DataObject) -> None:
    layout = data.draw(layouts(partial=True))
    whole = np.arange(prod(layout.global_shape)).reshape(layout.global_shape)
    local = [whole] * layout.devices.size
    for dim, axes in enumerate(layout.tensor_map):
        local = split(local, layout, axes, dim)
    if layout.optimizer_axes:
        local = split(local, layout, layout.optimizer_axes, 0)
    for rank, expected in zip(ranks_of(layout), local, strict=True):
        held = whole[(*layout.box(rank).within(Box.whole(whole.shape)), ...)]
        assert layout.local_shape(rank) == expected.shape
        assert np.array_equal(held, expected)


@given(data=st.data())
def test_the_boxes_of_one_replica_partition_the_tensor(layouts: Layouts, data: st.DataObject) -> None:
    layout = data.draw(layouts())
    for replica in range(layout.replica_count):
        count = np.zeros(layout.global_shape, int)
        for parts in np.ndindex(layout.cuts):
            rank = layout.rank_at(parts, replica)
            count[(*layout.box(rank).within(Box.whole(layout.global_shape)), ...)] += 1
        assert (count == 1).all()


@given(data=st.data())
def test_rank_at_inverts_parts_and_replica(layouts: Layouts, data: st.DataObject) -> None:
    layout = data.draw(layouts())
    for rank in ranks_of(layout):
        assert layout.rank_at(layout.parts(rank), layout.replica(rank)) == rank
        holders = {layout.rank_at(layout.parts(rank), replica) for replica in range(layout.replica_count)}
        assert layout.replica_group(rank) == tuple(sorted(holders))
        assert all(layout.box(holder) == layout.box(rank) for holder in holders)
        assert layout.replica(layout.rank_at(layout.parts(rank))) == 0
    places = {(layout.parts(rank), layout.replica(rank)) for rank in ranks_of(layout)}
    assert len(places) == layout.devices.size == prod(layout.cuts) * layout.replica_count


@given(data=st.data())
def test_parts_over_a_box_are_exactly_those_that_overlap_it(layouts: Layouts, data: st.DataObject) -> None:
    layout = data.draw(layouts())
    bounds = [sorted(data.draw(st.tuples(*[st.integers(0, extent)] * 2))) for extent in layout.global_shape]
    box = Box(tuple(start for start, _ in bounds), tuple(stop for _, stop in bounds))
    overlapping = [parts for parts in np.ndindex(layout.cuts) if layout.box_of_parts(parts).intersection(box)]
    assert list(layout.parts_over(box)) == ([] if box.empty else overlapping)


@given(data=st.data())
def test_an_optimizer_shard_lies_in_the_box_of_its_rank(layouts: Layouts, data: st.DataObject) -> None:
    layout = data.draw(layouts())
    parameter = replace(layout, optimizer_axes=())
    for rank in ranks_of(layout):
        assert parameter.box(rank).contains(layout.box(rank))
        shards = [layout.box(other) for other in layout.devices.group(rank, layout.optimizer_axes)]
        assert sum(shard.size for shard in shards) == parameter.box(rank).size


def test_uneven_optimizer_shards_do_not_cross_the_cut_of_the_tensor() -> None:
    layout = Layout((6,), DeviceMatrix((2, 4)), ((0,),), optimizer_axes=(1,))
    bounds = [(layout.box(rank).start[0], layout.box(rank).stop[0]) for rank in range(8)]
    assert bounds == [(0, 1), (1, 2), (2, 3), (3, 3), (3, 4), (4, 5), (5, 6), (6, 6)]
    assert list(layout.parts_over(Box((2,), (4,)))) == [(2,), (4,)]


@given(data=st.data())
def test_the_canonical_layout_places_every_element_alike(layouts: Layouts, data: st.DataObject) -> None:
    layout = data.draw(layouts(partial=True))
    canonical = layout.canonical
    assert canonical.canonical == canonical
    assert 1 not in canonical.devices.shape
    assert canonical.reduction == (layout.reduction if canonical.partial else "sum")
    for rank in ranks_of(layout):
        assert canonical.box(rank) == layout.box(rank)
        assert canonical.partial_group(rank) == layout.partial_group(rank)


def divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


@given(data=st.data())
def test_a_finer_device_matrix_is_the_same_layout(layouts: Layouts, data: st.DataObject) -> None:
    layout = data.draw(layouts(partial=True))
    shape: list[int] = []
    for extent in layout.devices.shape:
        first = data.draw(st.sampled_from(divisors(extent)))
        shape += [first, extent // first]
    finer = layout.reshaped_devices(tuple(shape))
    assert finer.devices.shape == tuple(shape)
    assert [finer.box(rank) for rank in ranks_of(layout)] == [layout.box(rank) for rank in ranks_of(layout)]
    assert finer.canonical == layout.canonical


@given(data=st.data())
def test_cut_alike_is_canonically_equal(layouts: Layouts, data: st.DataObject) -> None:
    # 840 elements cut evenly over up to 8 ranks: boxes are equal only where parts are.
    first, second = (replace(data.draw(layouts((840, 840), last_rank=8)), optimizer_axes=()) for _ in range(2))
    same = ranks_of(first) == ranks_of(second) and all(first.box(rank) == second.box(rank) for rank in ranks_of(first))
    assert (first.canonical == second.canonical) == same


def test_reduced_axes_become_replicas() -> None:
    layout = Layout((4,), DeviceMatrix((2, 2)), ((0,),), partial=(1,), reduction="max")
    assert layout.reduced() == Layout((4,), DeviceMatrix((2, 2)), ((0,),))
    assert layout.partial_group(2) == (2, 3)
    assert layout.replica_group(2) == (2,)
    assert layout.reduced().replica_group(2) == (2, 3)


def test_a_replicated_tensor_is_whole_on_every_rank() -> None:
    layout = Layout.replicated((2, 3), DeviceMatrix((2, 2), 4))
    assert [layout.box(rank) for rank in range(4, 8)] == [Box.whole((2, 3))] * 4
    assert layout.replica_count == 4


def test_the_text_of_a_layout_names_cuts_devices_and_terms() -> None:
    layout = Layout((8, 6), DeviceMatrix((2, 3)), ((0,), ()), partial=(1,))
    assert str(layout) == "[8/2 x 6] on (2, 3), partial sum over axes (1,)"
    assert str(layout.reduced()) == "[8/2 x 6] on (2, 3)"


@pytest.mark.parametrize(
    ("shape", "tensor_map", "partial", "optimizer_axes", "message"),
    [
        ((4, 4), ((0,),), (), (), r"give each dim of \(4, 4\) one entry"),
        ((4, 4), ((0,), (0,)), (), (), "may be used once"),
        ((4,), ((0,),), (0,), (), "may be used once"),
        ((4,), ((0,),), (), (0,), "may be used once"),
        ((4,), ((2,),), (), (), "may be used once"),
        ((4,), ((-1,),), (), (), "may be used once"),
        ((), (), (), (0,), "no dim 0"),
        ((-1,), ((),), (), (), r"global shape \(-1,\)"),
    ],
)
def test_a_layout_that_fits_no_tensor_is_refused(
    shape: tuple[int, ...],
    tensor_map: TensorMap,
    partial: tuple[int, ...],
    optimizer_axes: tuple[int, ...],
    message: str,
) -> None:
    with pytest.raises(LayoutError, match=message):
        Layout(shape, DeviceMatrix((2, 2)), tensor_map, partial, optimizer_axes=optimizer_axes)


def test_bounds_overlap_leave_out_and_survive_another_device_matrix() -> None:
    layout = Layout((2, 9), DeviceMatrix((2, 4)), ((0,), (1,))).with_bounds([(), ((0, 4), (2, 6), (5, 5), (8, 9))])
    same = layout.reshaped_devices((2, 2, 2))
    for one in (layout, same, same.canonical):
        assert [(one.box(rank).start[1], one.box(rank).stop[1]) for rank in range(4)] == [*layout.bounds[1]]
        assert sorted(one.parts_over(Box((0, 3), (1, 6)))) == [(0, 0), (0, 1)]
    assert same.canonical == layout.canonical != layout.even().canonical


@pytest.mark.parametrize(
    ("bounds", "optimizer_axes"),
    [(((), ((0, 4),)), ()), (((),), ()), ((((0, 2), (0, 2)), ()), ()), (((), ((0, 4), (4, 8))), (0,))],
)
def test_bounds_that_do_not_fit_the_cuts_are_refused(bounds, optimizer_axes) -> None:
    with pytest.raises(LayoutError, match="give each dim"):
        Layout((2, 8), DeviceMatrix((2, 2)), ((), (1,)), optimizer_axes=optimizer_axes, bounds=bounds)


PARTS = [(start, stop) for start in range(6) for stop in range(start + 1, 7)]


def test_parts_in_order_tile_where_each_element_is_in_one_of_them() -> None:
    for first, second in product(PARTS, repeat=2):
        held = np.zeros(6, int)
        for start, stop in (first, second):
            held[start:stop] += 1
        layout = Layout((6,), DeviceMatrix((2,)), ((0,),)).with_bounds([(first, second)])
        assert layout.tiles == (bool((held == 1).all()) and first < second), (first, second)


@pytest.mark.parametrize("shape", [(8,), (3, 2), (2, 1), (6, 2), (2, 3, 2), ()])
def test_a_device_matrix_that_does_not_refine_is_refused(shape: tuple[int, ...]) -> None:
    layout = Layout((8,), DeviceMatrix((2, 3)), ((0,),))
    with pytest.raises(LayoutError, match="does not refine"):
        layout.reshaped_devices(shape)


@given(data=st.data())
def test_the_largest_size_is_that_of_the_rank_that_holds_most(layouts: Layouts, data: st.DataObject) -> None:
    layout = data.draw(layouts(partial=True))
    assert layout.largest_size == max(layout.box(rank).size for rank in ranks_of(layout))


@pytest.mark.parametrize(
    ("bounds", "largest"),
    [
        ([((0, 2), (2, 7)), ()], 5 * 2),
        ([(), ((1, 2), (2, 5), (5, 5))], 4 * 3),
        ([((0, 3), (3, 7)), ((0, 3), (1, 5), (5, 5))], 4 * 4),
    ],
)
def test_the_largest_size_is_told_of_parts_of_any_bounds(bounds: list[Bounds], largest: int) -> None:
    layout = Layout((7, 5), DeviceMatrix((2, 3)), ((0,), (1,))).with_bounds(bounds)
    assert layout.largest_size == largest == max(layout.box(rank).size for rank in range(6))


def test_bounds_of_the_even_rule_are_none() -> None:
    layout = Layout((8, 5), DeviceMatrix((2, 3)), ((0,), (1,)))
    assert layout.with_bounds([((0, 4), (4, 8)), ((0, 2), (2, 4), (4, 5))]) is layout
    assert layout.with_bounds([((0, 4), (4, 8)), ((0, 1), (1, 4), (4, 5))]).bounds == ((), ((0, 1), (1, 4), (4, 5)))


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        (Layout((8,), DeviceMatrix((2, 1, 2)), ((0, 1, 2),)), (4,)),
        (Layout((8,), DeviceMatrix((2, 2)), ((1, 0),)), (2, 2)),
        (Layout((8, 8), DeviceMatrix((2, 2)), ((0,), (1,))), (2, 2)),
        (Layout((8,), DeviceMatrix((2, 1, 3)), ((),)), (6,)),
        (Layout((8,), DeviceMatrix((2, 1, 2, 3)), ((),), partial=(0, 2)), (4, 3)),
        (Layout((8,), DeviceMatrix((2, 2, 2)), ((0,),), optimizer_axes=(1, 2)), (2, 4)),
        (Layout((8,), DeviceMatrix((1, 1)), ((0,),)), ()),
    ],
)
def test_axes_that_could_be_one_are_one_in_the_canonical_layout(layout: Layout, shape: tuple[int, ...]) -> None:
    assert layout.canonical.devices.shape == shape
