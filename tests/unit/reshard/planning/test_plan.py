from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.cluster.hosts import Hosts
from mpiparallel.errors import ReshardError
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.planning.plan import LayoutPair, ReshardPlan, plan_digest, plan_reshard

Layouts = Callable[..., st.SearchStrategy[Layout]]
Shapes = Callable[..., st.SearchStrategy[tuple[int, ...]]]
WORLD = range(12)


def draw_layout(data: st.DataObject, layouts: Layouts, shape: tuple[int, ...]) -> Layout:
    """Draw a layout on up to 12 ranks: consecutive ones, or any in any order."""
    layout = data.draw(layouts(shape, max_devices=12, last_rank=11))
    if not data.draw(st.booleans()):
        return layout
    return layout.on_ranks(data.draw(st.permutations(WORLD))[: layout.devices.size])


def draw_bounds(data: st.DataObject, layout: Layout) -> Layout:
    """Draw ranges for the parts of some dims: they may overlap, be empty and leave elements out."""
    if layout.optimizer_axes or not data.draw(st.booleans()):
        return layout
    bounds = []
    for extent, parts in zip(layout.global_shape, layout.cuts, strict=True):
        ends = st.lists(st.integers(0, extent), min_size=2, max_size=2).map(lambda two: tuple(sorted(two)))
        given = data.draw(st.one_of(st.just(()), st.lists(ends, min_size=parts, max_size=parts).map(tuple)))
        bounds.append(given)
    return replace(layout, bounds=tuple(bounds)) if any(bounds) else layout


def draw_pairs(data: st.DataObject, layouts: Layouts, shapes: Shapes) -> dict[str, LayoutPair]:
    pairs = {}
    for tensor in data.draw(st.lists(st.sampled_from("wbm"), min_size=1, max_size=3, unique=True)):
        shape = data.draw(shapes())
        target = draw_bounds(data, draw_layout(data, layouts, shape))
        pairs[tensor] = (draw_layout(data, layouts, shape), target)
    return pairs


def draw_hosts(data: st.DataObject) -> Hosts | None:
    numbers = st.lists(st.integers(0, 3), min_size=12, max_size=12).map(tuple)
    return data.draw(st.one_of(st.none(), st.integers(1, 5).map(Hosts.uniform), st.builds(Hosts, numbers)))


def plans_of(pairs: dict[str, LayoutPair], hosts: Hosts | None = None) -> list[ReshardPlan]:
    itemsizes = {tensor: size for tensor, size in zip(sorted(pairs), (2, 8, 1), strict=False)}
    return [plan_reshard(pairs, rank, itemsizes, hosts) for rank in WORLD]


@given(data=st.data())
def test_every_element_of_the_target_arrives_exactly_once(
    layouts: Layouts, shapes: Shapes, data: st.DataObject
) -> None:
    pairs = draw_pairs(data, layouts, shapes)
    for rank, plan in enumerate(plans_of(pairs, draw_hosts(data))):
        for tensor, (_, target) in pairs.items():
            arrived = np.zeros(target.global_shape, int)
            everything = Box.whole(target.global_shape)
            for transfer in (*plan.receives, *plan.copies):
                if transfer.tensor == tensor:
                    assert transfer.target == rank
                    arrived[(*transfer.box.within(everything), ...)] += 1
            wanted = np.zeros(target.global_shape, int)
            if rank in target.devices and tensor not in plan.kept:
                wanted[(*target.box(rank).within(everything), ...)] = 1
            assert np.array_equal(arrived, wanted)


@given(data=st.data())
def test_what_one_rank_sends_the_other_receives_in_the_same_order(
    layouts: Layouts, shapes: Shapes, data: st.DataObject
) -> None:
    plans = plans_of(draw_pairs(data, layouts, shapes), draw_hosts(data))
    for source, sender in enumerate(plans):
        for target, receiver in enumerate(plans):
            sent = [transfer for transfer in sender.sends if transfer.target == target]
            assert sent == [transfer for transfer in receiver.receives if transfer.source == source]
            assert not sent or source != target


@given(data=st.data())
def test_a_rank_gives_only_what_it_holds_and_asks_only_for_what_it_lacks(
    layouts: Layouts, shapes: Shapes, data: st.DataObject
) -> None:
    pairs = draw_pairs(data, layouts, shapes)
    for rank, plan in enumerate(plans_of(pairs, draw_hosts(data))):
        for transfer in (*plan.sends, *plan.copies):
            assert transfer.source == rank
            assert pairs[transfer.tensor][0].box(rank).contains(transfer.box)
            assert not transfer.box.empty
        for transfer in plan.receives:
            source = pairs[transfer.tensor][0]
            assert rank not in source.devices or source.box(rank).intersection(transfer.box) is None
        for tensor in plan.kept:
            source, target = pairs[tensor]
            assert source.box(rank) == target.box(rank)
            assert tensor not in {transfer.tensor for transfer in (*plan.receives, *plan.copies)}


@given(data=st.data())
def test_a_host_that_holds_a_block_is_not_served_from_outside(
    layouts: Layouts, shapes: Shapes, data: st.DataObject
) -> None:
    pairs = draw_pairs(data, layouts, shapes)
    hosts = Hosts(tuple(data.draw(st.lists(st.integers(0, 3), min_size=12, max_size=12))))
    for rank, plan in enumerate(plans_of(pairs, hosts)):
        for transfer in plan.receives:
            source = pairs[transfer.tensor][0]
            holders = {one for one in source.devices.members if source.box(one).contains(transfer.box)}
            near = holders & set(hosts.ranks_of(hosts.host(rank)))
            assert transfer.source in (near or holders)


@given(data=st.data())
def test_a_plan_is_sorted_by_peer_tensor_and_box(layouts: Layouts, shapes: Shapes, data: st.DataObject) -> None:
    for plan in plans_of(draw_pairs(data, layouts, shapes), draw_hosts(data)):
        sends = [(transfer.target, transfer.tensor, transfer.box.start) for transfer in plan.sends]
        receives = [(transfer.source, transfer.tensor, transfer.box.start) for transfer in plan.receives]
        copies = [(transfer.tensor, transfer.box.start) for transfer in plan.copies]
        assert sends == sorted(set(sends))
        assert receives == sorted(set(receives))
        assert copies == sorted(set(copies))
        assert plan.kept == tuple(sorted(plan.kept))


@given(data=st.data())
def test_an_unchanged_layout_moves_nothing(layouts: Layouts, data: st.DataObject) -> None:
    layout = data.draw(layouts())
    for rank in range(layout.devices.first_rank, layout.devices.first_rank + layout.devices.size):
        assert plan_reshard({"w": (layout, layout)}, rank) == ReshardPlan(rank, (), (), (), ("w",))


def test_replicas_take_turns_when_a_replicated_tensor_is_cut_elsewhere() -> None:
    source = Layout((8, 8), DeviceMatrix((4,)), ((), ()))
    for tensor_map in (((0,), ()), ((), (0,))):
        target = Layout((8, 8), DeviceMatrix((4,), 4), tensor_map)
        takers = [[transfer.target for transfer in plan_reshard({"w": (source, target)}, rank).sends] for rank in WORLD]
        assert takers == [[4], [5], [6], [7], [], [], [], [], [], [], [], []]


def test_replicas_take_turns_when_ranks_join() -> None:
    source, target = (Layout((8,), DeviceMatrix((size,)), ((),)) for size in (2, 6))
    takers = [[transfer.target for transfer in plan_reshard({"w": (source, target)}, rank).sends] for rank in range(6)]
    assert takers == [[2, 4], [3, 5], [], [], [], []]


def test_a_plan_for_a_hundred_thousand_ranks_is_made_without_a_walk_over_them() -> None:
    source = Layout((1 << 20, 64), DeviceMatrix((1 << 10, 1 << 7)), ((0,), ()))
    target = Layout((1 << 20, 64), DeviceMatrix((1 << 11, 1 << 6)), ((0,), (1,)))
    rank = (1 << 17) - 3
    plan = plan_reshard({"w": (source, target)}, rank)
    assert (len(plan.sends), len(plan.receives), len(plan.copies)) == (0, 0, 1)
    assert len(plan_reshard({"w": (target, source)}, rank).receives) == 127


def test_layouts_of_unlike_shapes_are_refused_by_name() -> None:
    source, target = (Layout((extent,), DeviceMatrix((2,)), ((0,),)) for extent in (4, 6))
    with pytest.raises(ReshardError) as caught:
        plan_reshard({"w": (source, target)}, 0)
    assert str(caught.value) == (
        "w: the source layout is of shape (4,), the target layout of (6,); a reshard moves elements, it does not "
        "reshape"
    )


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_partial_layout_is_refused_by_name(side: str) -> None:
    whole = Layout((4,), DeviceMatrix((2,)), ((),))
    terms = replace(whole, partial=(0,))
    with pytest.raises(ReshardError) as caught:
        plan_reshard({"w": (terms, whole) if side == "source" else (whole, terms)}, 0)
    assert str(caught.value) == f"w: its {side} layout {terms} holds terms, not elements; reduce it before it is moved"


def test_a_source_whose_parts_overlap_is_refused_by_name() -> None:
    halves = Layout((8,), DeviceMatrix((2,)), ((0,),))
    wide = halves.with_bounds([((0, 5), (3, 8))])
    with pytest.raises(ReshardError) as caught:
        plan_reshard({"w": (wide, halves)}, 0)
    assert str(caught.value) == f"w: its source layout {wide} has parts that overlap; move it from where it is whole"


def test_the_digest_is_equal_for_equal_layouts_in_any_order() -> None:
    first, second = (Layout((4, 6), DeviceMatrix((2, 2)), tensor_map) for tensor_map in (((0,), (1,)), ((1,), (0,))))
    forward = {"a": (first, second), "b": (second, first)}
    backward = {"b": (replace(second), replace(first)), "a": (first, second)}
    assert plan_digest(forward) == plan_digest(backward)
    assert len(plan_digest(forward)) == 32
    assert plan_digest({}) != plan_digest(forward)


def test_the_digest_tells_layouts_names_and_sides_apart() -> None:
    layout = Layout((4, 6), DeviceMatrix((2, 2)), ((0,), ()))
    others = [
        layout,
        replace(layout, global_shape=(4, 7)),
        replace(layout, devices=DeviceMatrix((2, 2, 1))),
        replace(layout, devices=DeviceMatrix((2, 2), 1)),
        layout.on_ranks((0, 2, 1, 3)),
        replace(layout, tensor_map=((), ())),
        replace(layout, optimizer_axes=(1,)),
        replace(layout, partial=(1,)),
        replace(layout, partial=(1,), reduction="max"),
        layout.with_bounds([((0, 1), (1, 4)), ()]),
    ]
    pairs = [(layout, other) for other in others] + [(other, layout) for other in others[1:]]
    digests = {plan_digest({tensor: pair}) for tensor in "vw" for pair in pairs}
    assert len(digests) == 2 * len(pairs)


def test_a_tensor_without_the_bytes_of_its_elements_is_refused_by_name() -> None:
    halves = Layout((8,), DeviceMatrix((2,)), ((0,),))
    whole = Layout.replicated((8,), DeviceMatrix((2,)))
    for sizes, missing in (({"w": 4}, "u"), ({"u": 4}, "v"), ({}, "u")):
        with pytest.raises(ReshardError) as caught:
            plan_reshard(dict.fromkeys("wvu", (halves, whole)), 0, sizes)
        assert str(caught.value) == (
            f"{missing}: itemsizes has no entry for it; give the bytes of an element of each tensor"
        )
