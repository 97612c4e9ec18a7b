"""The traffic of all ranks against the plans of each: the same numbers, found another way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.cluster.hosts import Hosts
from mpiparallel.errors import ReshardError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.forecast import pair_bytes, replica_assignment
from mpiparallel.reshard.forecast.peak import bounded_peak
from mpiparallel.reshard.forecast.reduced_layout_pair import reduced_pair_of
from mpiparallel.reshard.forecast.traffic import Traffic, traffic
from mpiparallel.reshard.planning.layout_digest import LayoutPair
from mpiparallel.reshard.planning.plan import plan_reshard
from mpiparallel.reshard.waves import waves

Layouts = Callable[..., st.SearchStrategy[Layout]]
Shapes = Callable[..., st.SearchStrategy[tuple[int, ...]]]
RANKS = 9
HOSTS = st.one_of(
    st.none(),
    st.integers(1, RANKS).map(Hosts.uniform),
    st.tuples(*[st.integers(0, 3)] * RANKS).map(Hosts),
)


@st.composite
def states(draw: st.DrawFn, layouts: Layouts, shapes: Shapes) -> tuple[dict[str, LayoutPair], dict[str, int]]:
    """Draw tensors, some of them alike and some on permuted ranks, and their itemsizes."""
    order = draw(st.permutations(range(RANKS)))
    pairs = {}
    for tensor in draw(st.lists(st.sampled_from("wbm"), min_size=1, max_size=3, unique=True)):
        shape = draw(shapes())
        source, target = (draw(layouts(shape, last_rank=RANKS - 1)) for _ in range(2))
        if draw(st.booleans()):
            source = source.on_ranks([order[rank] for rank in source.devices.members])
        for copy in range(draw(st.integers(1, 3))):
            pairs[f"{tensor}{copy}"] = (source, target)
    return pairs, {tensor: draw(st.sampled_from([1, 2, 4, 16])) for tensor in pairs}


def of_ranks(found: Traffic, values: np.ndarray) -> dict[int, int]:
    return {rank: value for rank, value in zip(found.ranks.tolist(), values.tolist(), strict=True) if value}


@given(data=st.data())
def test_it_is_the_sum_of_the_plans_of_all_ranks(layouts: Layouts, shapes: Shapes, data: st.DataObject) -> None:
    pairs, itemsizes = data.draw(states(layouts, shapes))
    hosts = data.draw(HOSTS)
    sent: Counter[tuple[int, int]] = Counter()
    kept: Counter[int] = Counter()
    copied: Counter[int] = Counter()
    moved: Counter[str] = Counter()
    for rank in range(RANKS):
        plan = plan_reshard(pairs, rank, itemsizes, hosts)
        for transfer in plan.sends:
            sent[transfer.source, transfer.target] += transfer.box.size * itemsizes[transfer.tensor]
            moved[transfer.tensor] += transfer.box.size * itemsizes[transfer.tensor]
        for transfer in plan.copies:
            copied[rank] += transfer.box.size * itemsizes[transfer.tensor]
        for tensor in plan.kept:
            kept[rank] += pairs[tensor][0].box(rank).size * itemsizes[tensor]
    found = traffic(pairs, hosts, itemsizes)
    ends = zip(found.givers.tolist(), found.takers.tolist(), strict=True)
    assert dict(zip(ends, found.pair_bytes.tolist(), strict=True)) == sent
    assert list(sent) == [] or found.givers.tolist() == sorted(found.givers.tolist())
    assert of_ranks(found, found.kept) == +kept
    assert of_ranks(found, found.copied) == copied
    assert {tensor: size for tensor, size in found.moved.items() if size} == moved
    assert (found.bytes_moved, found.bytes_kept) == (sum(sent.values()), sum((kept + copied).values()))
    if hosts is not None:
        between = sum(size for (a, b), size in sent.items() if hosts.host(a) != hosts.host(b))
        assert found.between_hosts(hosts) == between


@given(data=st.data())
def test_what_a_rank_receives_copies_and_keeps_is_what_it_holds_after(
    layouts: Layouts, shapes: Shapes, data: st.DataObject
) -> None:
    pairs, itemsizes = data.draw(states(layouts, shapes))
    found = traffic(pairs, None, itemsizes)
    for side, values in ((0, found.before), (1, found.after)):
        for rank, value in zip(found.ranks.tolist(), values.tolist(), strict=True):
            held = [(tensor, pair[side]) for tensor, pair in pairs.items() if rank in pair[side].devices]
            assert value == sum(layout.box(rank).size * itemsizes[tensor] for tensor, layout in held)
    assert np.array_equal(found.received + found.copied + found.kept, found.after)
    assert found.sent.sum() == found.received.sum() == found.matrix().sum() == found.matrix(2).sum()
    assert found.messages_sent.sum() == found.messages_received.sum() == found.givers.size
    assert np.array_equal(found.matrix().sum(axis=0), found.received)
    assert np.array_equal(found.matrix().sum(axis=1), found.sent)
    assert np.array_equal(found.safe_peak, found.before + found.received + found.copied)


@given(data=st.data())
def test_the_bounded_peak_is_that_of_carrying_out_the_waves(
    layouts: Layouts, shapes: Shapes, data: st.DataObject
) -> None:
    pairs, itemsizes = data.draw(states(layouts, shapes))
    wave_bytes = data.draw(st.integers(1, 200))
    found = bounded_peak(pairs, itemsizes, wave_bytes)
    ranks = traffic(pairs, None, itemsizes).ranks.tolist()
    moving = {tensor: pair for tensor, pair in pairs.items() if pair[0] != pair[1]}
    for rank, peak in zip(ranks, found.tolist(), strict=True):

        def size(tensor: str, layout: Layout, rank: int = rank) -> int:
            return layout.box(rank).size * itemsizes[tensor] if rank in layout.devices else 0

        held = {tensor: size(tensor, source) for tensor, (source, _) in pairs.items()}
        most = sum(held.values())
        for wave in waves(moving, itemsizes, wave_bytes):
            stays = plan_reshard({tensor: pairs[tensor] for tensor in wave}, rank).kept
            after = {tensor: size(tensor, pairs[tensor][1]) for tensor in wave}
            new = sum(value for tensor, value in after.items() if tensor not in stays)
            most = max(most, sum(held.values()) + new)
            held |= after
        assert peak == most


@given(data=st.data())
def test_many_ranks_are_summed_as_few_are(layouts: Layouts, shapes: Shapes, data: st.DataObject) -> None:
    pairs, itemsizes = data.draw(states(layouts, shapes))
    with pytest.MonkeyPatch.context() as patch:
        few = traffic(pairs, None, itemsizes)
        patch.setattr(pair_bytes, "_TABLE_PAIRS", 0)
        patch.setattr(pair_bytes, "_ENTRIES", 3)
        patch.setattr(replica_assignment, "_TABLE_CELLS", 4)
        many = traffic(pairs, None, itemsizes)
    for name in ("givers", "takers", "pair_bytes"):
        assert np.array_equal(getattr(few, name), getattr(many, name))


def test_tensors_that_differ_by_a_multiple_of_their_cuts_go_one_way() -> None:
    devices = DeviceMatrix((2, 3))
    for extent, factor in ((6, 35), (12, 70), (600, 3500)):
        source, target = (Layout((extent, 35), devices, (axes, ())) for axes in ((0,), (1,)))
        reduced, found = reduced_pair_of(source, target)
        assert (reduced.source.global_shape, found) == ((6, 1), factor)
    source, target = (Layout((8, 35), devices, (axes, ())) for axes in ((0,), (1,)))
    assert reduced_pair_of(source, target)[0].source.global_shape == (8, 1)


def test_parts_of_a_target_may_overlap() -> None:
    halves = Layout((8,), DeviceMatrix((2,)), ((0,),))
    wide = halves.with_bounds([((0, 5), (3, 8))])
    found = traffic({"w": (halves, wide)})
    assert found.matrix().tolist() == [[0, 1], [1, 0]]
    assert found.copied.tolist() == [4, 4]


def test_sixteen_thousand_ranks_are_summed_without_a_walk_over_them() -> None:
    source = Layout((1 << 20, 64), DeviceMatrix((1 << 11, 8)), ((), (1,)), optimizer_axes=(0,))
    target = Layout((1 << 20, 64), DeviceMatrix((1536, 8)), ((), (1,)), optimizer_axes=(0,))
    found = traffic({f"w{number}": (source, target) for number in range(1000)}, Hosts.uniform(8))
    assert found.bytes_moved + found.bytes_kept == 1000 * 64 << 20
    for rank in (0, 5, 8191, 12287, 12288, 16383):
        plan = plan_reshard({"w": (source, target)}, rank)
        place = np.flatnonzero(found.ranks == rank)
        assert found.sent[place] == 1000 * sum(transfer.box.size for transfer in plan.sends)
        assert found.messages_received[place] == len({transfer.source for transfer in plan.receives})


def test_what_cannot_be_planned_is_refused_by_name() -> None:
    halves = Layout((8,), DeviceMatrix((2,)), ((0,),))
    with pytest.raises(ReshardError, match=r"w: its source layout .* terms"):
        traffic({"w": (replace(halves, tensor_map=((),), partial=(0,)), halves)})
    with pytest.raises(ReshardError, match="w: itemsizes has no entry"):
        traffic({"w": (halves, halves)}, itemsizes={})
    vast = replace(halves, global_shape=(1 << 61,))
    with pytest.raises(ReshardError, match=r"w: with its shape .* check the shape"):
        traffic({"w": (vast, vast)}, itemsizes={"w": 8})


def test_nothing_is_the_traffic_of_no_tensors() -> None:
    found = traffic({})
    assert (found.ranks.size, found.bytes_moved, found.matrix().size) == (0, 0, 0)
