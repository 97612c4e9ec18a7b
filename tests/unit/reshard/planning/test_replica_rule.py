"""Who gives what to whom where several ranks hold it: turns that are counted here by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mpiparallel.cluster.hosts import Hosts
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.planning.plan import LayoutPair, plan_reshard
from mpiparallel.reshard.planning.replica_rule import golden_step

Given = list[tuple[str, int, int]]


def copies(extent: int, *ranks: int) -> Layout:
    return Layout((extent,), DeviceMatrix((len(ranks),), ranks=ranks), ((),))


def rows(extent: int, *ranks: int) -> Layout:
    return Layout((extent,), DeviceMatrix((len(ranks),), ranks=ranks), ((0,),))


def given(
    pairs: Mapping[str, LayoutPair],
    itemsizes: Mapping[str, int] | None = None,
    hosts: Hosts | None = None,
    absent: frozenset[int] = frozenset(),
) -> Given:
    """Return tensor, giver and taker of all that is sent, after a look that takers expect the same."""
    ranks = {rank for pair in pairs.values() for layout in pair for rank in layout.devices.members}
    plans = [plan_reshard(pairs, rank, itemsizes, hosts, absent) for rank in sorted(ranks - absent)]
    sent = sorted((one.tensor, one.source, one.target) for plan in plans for one in plan.sends)
    assert sent == sorted((one.tensor, one.source, one.target) for plan in plans for one in plan.receives)
    return sorted(sent, key=lambda one: (one[0], one[2]))


@pytest.mark.parametrize(
    ("holders", "wanted"),
    [
        # The start of a round moves on by a step after every second round: by 1 among 2, 3 and 4, by 2 among 5.
        (2, [0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1]),
        (3, [0, 1, 2, 0, 1, 2, 1, 2, 0, 1, 2, 0, 2, 0, 1]),
        (4, [0, 1, 2, 3, 0, 1, 2, 3, 3, 0, 1, 2, 3, 0, 1, 2, 2]),
        (5, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 4]),
    ],
)
def test_holders_take_turns_in_rounds_whose_start_moves_on(holders: int, wanted: list[int]) -> None:
    everyone = range(holders + len(wanted))
    found = given({"w": (copies(8, *everyone[:holders]), copies(8, *everyone))})
    assert [giver for _, giver, _ in found] == wanted


def test_rounds_begin_again_after_64_starts() -> None:
    # A start lasts two rounds. Of three holders the 65th is the first one again, though 64 is no multiple of three.
    pairs = {"w": (copies(8, 0, 1, 2), copies(8, *range(3 + 6 * 65)))}
    giver_of = {one.target: rank for rank in range(3) for one in plan_reshard(pairs, rank).sends}
    givers = [giver_of[rank] for rank in range(3, 3 + 6 * 65)]
    assert givers[6 * 62 :] == [2, 0, 1, 2, 0, 1] + [0, 1, 2, 0, 1, 2] * 2


@pytest.mark.parametrize(
    ("size", "step"), [(1, 0), (2, 1), (3, 1), (4, 3), (5, 2), (6, 5), (8, 3), (10, 7), (12, 5), (16, 7), (100, 39)]
)
def test_the_step_is_the_first_from_the_golden_section_on_that_visits_all(size: int, step: int) -> None:
    assert golden_step(size) == step
    assert sorted(place * step % size for place in range(size)) == list(range(size))


@pytest.mark.parametrize(
    ("itemsizes", "wanted"),
    [
        (None, [("a", 1, 3), ("a", 2, 4), ("b", 0, 3), ("b", 1, 4), ("c", 2, 3), ("c", 0, 4)]),
        ({"a": 8, "b": 1, "c": 1}, [("a", 0, 3), ("a", 1, 4), ("b", 2, 3), ("b", 0, 4), ("c", 1, 3), ("c", 2, 4)]),
        ({"a": 1, "b": 1, "c": 2}, [("a", 1, 3), ("a", 2, 4), ("b", 2, 3), ("b", 0, 4), ("c", 0, 3), ("c", 1, 4)]),
    ],
    ids=str,
)
def test_turns_go_on_from_tensor_to_tensor_the_largest_first(itemsizes: dict[str, int] | None, wanted: Given) -> None:
    extents = {"a": 2, "b": 5, "c": 5}
    pairs = {name: (copies(extent, 0, 1, 2), copies(extent, 0, 1, 2, 3, 4)) for name, extent in extents.items()}
    assert given(pairs, itemsizes) == wanted


def test_the_largest_is_the_one_whose_blocks_are() -> None:
    # A block of w has 4 elements at most, as its target is cut; v has all 6.
    pairs = {"v": (copies(6, 0, 1, 2), copies(6, 3, 4)), "w": (copies(7, 0, 1, 2), rows(7, 3, 4))}
    assert given(pairs) == [("v", 0, 3), ("v", 1, 4), ("w", 2, 3), ("w", 0, 4)]


def test_what_nobody_lacks_takes_no_turn_and_unlike_tensors_of_one_group_share_theirs() -> None:
    pairs = {
        "a": (Layout((4,), DeviceMatrix((2, 3)), ((0,),)), copies(4, 6)),
        "b": (copies(3, 0, 1, 2), copies(3, 6)),
        "k": (copies(9, 0, 1, 2), copies(9, 1, 2)),
        "s": (copies(8, 0), copies(8, 6)),
    }
    # Of a the ranks 0 to 2 hold the first half, in turn 1 after b, and the ranks 3 to 5 the other.
    found = given(pairs)
    assert sorted(found) == [("a", 1, 6), ("a", 3, 6), ("b", 0, 6), ("s", 0, 6)]


def test_groups_in_another_order_have_turns_of_their_own() -> None:
    pairs = {name: (copies(3, *ranks), copies(3, 6)) for name, ranks in {"a": (0, 2, 1), "b": (0, 1, 2)}.items()}
    assert given(pairs) == [("a", 0, 6), ("b", 0, 6)]
    assert given({**pairs, "c": pairs["a"]}) == [("a", 0, 6), ("b", 0, 6), ("c", 2, 6)]


@pytest.mark.parametrize(
    ("hosts", "holders", "wanted"),
    [
        (None, (0, 2), [(0, 1), (2, 3), (0, 4), (2, 5)]),
        (Hosts((0, 0, 1, 1, 1, 2)), (0, 2), [(0, 1), (2, 3), (2, 4), (0, 5)]),
        (Hosts((0, 0, 0, 0, 0, 0)), (0, 2), [(0, 1), (2, 3), (0, 4), (2, 5)]),
        (Hosts((1, 0, 1, 0, 0, 2)), (0, 2), [(0, 1), (2, 3), (0, 4), (2, 5)]),
        (Hosts((1, 0, 1, 1, 1, 2)), (0, 2), [(0, 1), (0, 3), (2, 4), (2, 5)]),
        (Hosts((0, 0, 1, 1, 1, 0)), (0, 1, 2), [(2, 3), (2, 4), (0, 5)]),
    ],
    ids=str,
)
def test_a_holder_on_the_host_of_a_taker_gives_it_and_the_others_take_turns_over_the_rest(
    hosts: Hosts | None, holders: tuple[int, ...], wanted: list[tuple[int, int]]
) -> None:
    found = given({"w": (copies(8, *holders), copies(8, *range(6)))}, None, hosts)
    assert [(giver, taker) for _, giver, taker in found] == wanted


def test_those_that_are_absent_have_no_turns() -> None:
    pairs = {"w": (copies(8, 0, 1, 2), copies(8, 0, 2, 3, 4, 5))}
    assert given(pairs, absent=frozenset({1})) == [("w", 0, 3), ("w", 2, 4), ("w", 0, 5)]
    beside = {"w": (copies(8, 0, 1, 2), copies(8, 2, 3, 4, 5))}
    found = given(beside, None, Hosts((0, 0, 0, 0, 1, 1)), frozenset({0}))
    assert found == [("w", 1, 3), ("w", 1, 4), ("w", 2, 5)]


def test_without_copies_each_part_comes_from_where_it_is_and_a_rank_outside_keeps_nothing() -> None:
    source, target = rows(6, 0, 1), Layout((6,), DeviceMatrix((3, 2)), ((0,),))
    plans = [plan_reshard({"w": (source, target), "k": (source, source)}, rank) for rank in range(7)]
    sent = [[(one.target, one.box.start[0], one.box.stop[0]) for one in plan.sends] for plan in plans]
    assert sent == [
        [(1, 0, 2), (2, 2, 3), (3, 2, 3)],
        [(2, 3, 4), (3, 3, 4), (4, 4, 6), (5, 4, 6)],
        *[[]] * 5,
    ]
    assert [[(one.box.start[0], one.box.stop[0]) for one in plan.copies] for plan in plans] == [[(0, 2)], *[[]] * 6]
    assert [plan.kept for plan in plans] == [("k",), ("k",), (), (), (), (), ()]
    assert plans[0].piece_sizes == ([[("w", 2)], [("w", 1)], [("w", 1)]], [])
    assert plans[3].piece_sizes == ([], [[("w", 1)], [("w", 1)]])
