"""Replicas share the work of giving by bytes: the busiest of them sends at most one block more than its share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.cluster.hosts import Hosts
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.planning.plan import LayoutPair, plan_reshard

Pair = Callable[[tuple[int, ...]], LayoutPair]


def replicated(first: int, stop: int) -> Callable[[tuple[int, ...]], Layout]:
    return lambda shape: Layout.replicated(shape, DeviceMatrix((stop - first,), first))


def rows(first: int, stop: int, replicas: int = 1) -> Callable[[tuple[int, ...]], Layout]:
    matrix = DeviceMatrix(((stop - first) // replicas, replicas), first)
    return lambda shape: Layout(shape, matrix, ((0,), *((),) * (len(shape) - 1)))


def major_replicas(count: int, parts: int) -> Callable[[tuple[int, ...]], Layout]:
    return lambda shape: Layout(shape, DeviceMatrix((count, parts)), ((1,), *((),) * (len(shape) - 1)))


CASES = {
    "unreplicated targets elsewhere": (replicated(0, 4), rows(4, 12)),
    "one rank takes all": (replicated(0, 5), rows(7, 8)),
    "ranks join, replicated": (replicated(0, 8), replicated(0, 12)),
    "few ranks join": (replicated(0, 8), replicated(0, 11)),
    "ranks join, cut": (replicated(0, 8), rows(0, 12)),
    "every other rank lacks it": (major_replicas(8, 2), rows(0, 16)),
    "parts with replicas grow": (rows(0, 12, 3), rows(0, 20, 5)),
    "replicas of other parts": (rows(0, 12, 3), rows(0, 12, 2)),
    "ranks in another order": (
        replicated(0, 6),
        lambda shape: rows(0, 12)(shape).on_ranks((11, 0, 10, 1, 9, 2, 8, 3, 7, 4, 6, 5)),
    ),
    "gathered from replicas": (rows(0, 12, 3), replicated(0, 12)),
}
SIZES = {
    "equal": [(240, 5)] * 7,
    "a few dims": [(240, 4), (240,), (120, 2, 2), (60, 60), (240, 1)] * 3,
    "one is large": [(240, 400), *[(240, 3)] * 12],
    "uneven": [(13, 3)] * 40,
    "short": [(15,)] * 40,
    "growing": [(240, columns) for columns in range(1, 30)],
}


def bytes_sent(pairs: dict[str, LayoutPair], itemsizes: dict[str, int], hosts: Hosts | None = None) -> Counter[int]:
    sent: Counter[int] = Counter()
    for rank in range(20):
        for transfer in plan_reshard(pairs, rank, itemsizes, hosts).sends:
            sent[rank] += transfer.box.size * itemsizes[transfer.tensor]
    return sent


def largest_block(pairs: dict[str, LayoutPair], itemsizes: dict[str, int]) -> int:
    plans = [plan_reshard(pairs, rank, itemsizes) for rank in range(20)]
    return max(send.box.size * itemsizes[send.tensor] for plan in plans for send in plan.sends)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("case", CASES)
def test_the_busiest_holder_sends_at_most_one_block_more_than_its_share(case: str, sizes: str) -> None:
    source, target = CASES[case]
    pairs = {f"t{index:02}": (source(shape), target(shape)) for index, shape in enumerate(SIZES[sizes])}
    itemsizes = {tensor: (2, 4, 8)[index % 3] for index, tensor in enumerate(pairs)}
    sent = bytes_sent(pairs, itemsizes)
    largest = largest_block(pairs, itemsizes)
    first = next(iter(pairs.values()))[0]
    groups = {first.replica_group(rank) for rank in first.devices.members}
    for group in groups:
        share = sum(sent[rank] for rank in group) / len(group)
        assert max(sent[rank] for rank in group) <= share + largest, (group, sent)


@given(st.lists(st.tuples(st.integers(1, 500), st.sampled_from([1, 2, 4, 8])), min_size=1, max_size=40), st.data())
def test_joining_ranks_are_served_evenly_whatever_the_tensors(
    tensors: list[tuple[int, int]], data: st.DataObject
) -> None:
    before, joining = data.draw(st.integers(2, 9)), data.draw(st.integers(1, 10))
    source, target = replicated(0, before), replicated(0, before + joining)
    pairs = {f"t{index}": (source((extent,)), target((extent,))) for index, (extent, _) in enumerate(tensors)}
    itemsizes = {f"t{index}": itemsize for index, (_, itemsize) in enumerate(tensors)}
    sent = bytes_sent(pairs, itemsizes)
    blocks = [extent * itemsize for extent, itemsize in tensors]
    assert sum(sent.values()) == joining * sum(blocks)
    assert max(sent[rank] for rank in range(before)) - min(sent[rank] for rank in range(before)) <= max(blocks)


def test_the_holders_of_a_host_take_turns_over_its_takers_and_the_rest_is_for_all() -> None:
    # Hosts of four: on the first two, half the ranks hold the tensors; the third has none and is served by all.
    hosts = Hosts.uniform(4)
    holders = (0, 1, 4, 5)
    source = [Layout.replicated((64,), DeviceMatrix((4,), ranks=holders))] * 6
    pairs = {f"t{index}": (one, Layout.replicated((64,), DeviceMatrix((12,)))) for index, one in enumerate(source)}
    plans = {rank: plan_reshard(pairs, rank, None, hosts) for rank in range(12)}
    for rank in holders:
        near = [send for send in plans[rank].sends if hosts.host(send.target) == hosts.host(rank)]
        assert len(near) == 6
        assert len(plans[rank].sends) - len(near) == 6
        assert {send.target for send in plans[rank].sends} <= {rank // 4 * 4 + 2, rank // 4 * 4 + 3, 8, 9, 10, 11}
