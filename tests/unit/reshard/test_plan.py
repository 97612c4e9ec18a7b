from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.errors import ReshardError
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.plan import LayoutPair, ReshardPlan, plan_digest, plan_reshard

Layouts = Callable[..., st.SearchStrategy[Layout]]
Shapes = Callable[..., st.SearchStrategy[tuple[int, ...]]]
WORLD = range(9)


def draw_pairs(data: st.DataObject, layouts: Layouts, shapes: Shapes) -> dict[str, LayoutPair]:
    pairs = {}
    for tensor in data.draw(st.lists(st.sampled_from("wbm"), min_size=1, max_size=3, unique=True)):
        shape = data.draw(shapes())
        pairs[tensor] = (data.draw(layouts(shape, last_rank=8)), data.draw(layouts(shape, last_rank=8)))
    return pairs


def plans_of(pairs: dict[str, LayoutPair]) -> list[ReshardPlan]:
    return [plan_reshard(pairs, rank) for rank in WORLD]


@given(data=st.data())
def test_every_element_of_the_target_arrives_exactly_once(
    layouts: Layouts, shapes: Shapes, data: st.DataObject
) -> None:
    pairs = draw_pairs(data, layouts, shapes)
    for rank, plan in enumerate(plans_of(pairs)):
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
    plans = plans_of(draw_pairs(data, layouts, shapes))
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
    for rank, plan in enumerate(plans_of(pairs)):
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
def test_a_plan_is_sorted_by_peer_tensor_and_box(layouts: Layouts, shapes: Shapes, data: st.DataObject) -> None:
    for plan in plans_of(draw_pairs(data, layouts, shapes)):
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
        assert takers == [[4], [5], [6], [7], [], [], [], [], []]


def test_replicas_take_turns_when_ranks_join() -> None:
    source, target = (Layout((8,), DeviceMatrix((size,)), ((),)) for size in (2, 6))
    takers = [[transfer.target for transfer in plan_reshard({"w": (source, target)}, rank).sends] for rank in range(6)]
    assert takers == [[2, 5], [3, 4], [], [], [], []]


def test_a_plan_for_a_hundred_thousand_ranks_is_made_without_a_walk_over_them() -> None:
    source = Layout((1 << 20, 64), DeviceMatrix((1 << 10, 1 << 7)), ((0,), ()))
    target = Layout((1 << 20, 64), DeviceMatrix((1 << 11, 1 << 6)), ((0,), (1,)))
    rank = (1 << 17) - 3
    plan = plan_reshard({"w": (source, target)}, rank)
    assert (len(plan.sends), len(plan.receives), len(plan.copies)) == (0, 0, 1)
    assert len(plan_reshard({"w": (target, source)}, rank).receives) == 127


def test_layouts_of_unlike_shapes_are_refused_by_name() -> None:
    source, target = (Layout((extent,), DeviceMatrix((2,)), ((0,),)) for extent in (4, 6))
    with pytest.raises(ReshardError, match=r"w: the source layout is of shape \(4,\), the target layout of \(6,\)"):
        plan_reshard({"w": (source, target)}, 0)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_partial_layout_is_refused_by_name(side: str) -> None:
    whole = Layout((4,), DeviceMatrix((2,)), ((),))
    terms = replace(whole, partial=(0,))
    with pytest.raises(ReshardError, match=f"w: its {side} layout .*reduce it"):
        plan_reshard({"w": (terms, whole) if side == "source" else (whole, terms)}, 0)


def test_a_source_whose_parts_overlap_is_refused_by_name() -> None:
    halves = Layout((8,), DeviceMatrix((2,)), ((0,),))
    with pytest.raises(ReshardError, match=r"w: its source layout .* has parts that overlap"):
        plan_reshard({"w": (halves.with_bounds([((0, 5), (3, 8))]), halves)}, 0)


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
        replace(layout, tensor_map=((), ())),
        replace(layout, optimizer_axes=(1,)),
        replace(layout, partial=(1,)),
        replace(layout, partial=(1,), reduction="max"),
    ]
    pairs = [(layout, other) for other in others] + [(other, layout) for other in others[1:]]
    digests = {plan_digest({tensor: pair}) for tensor in "vw" for pair in pairs}
    assert len(digests) == 2 * len(pairs)
