"""Copies of a tensor on groups of ranks are one layout, of which each group can be told again."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from mpiparallel.layout.copies import includes, joined, restricted
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

ROWS = Layout((7, 6), DeviceMatrix((2, 2)), ((0,), ()))
SHARDS = replace(ROWS, optimizer_axes=(1,))
COLUMNS = Layout((7, 6), DeviceMatrix((2, 2)), ((), (1,)))
UNEVEN = Layout((7, 6), DeviceMatrix((2,)), ((0,), ()), bounds=(((0, 1), (1, 7)), ()))


@pytest.mark.parametrize("layout", [ROWS, SHARDS, COLUMNS, UNEVEN, Layout.replicated((3,), DeviceMatrix(()))])
def test_each_rank_holds_in_the_joint_layout_what_it_held(layout: Layout) -> None:
    size = layout.devices.size
    groups = [layout, layout.on_ranks(range(9, 9 - size, -1)), layout.on_ranks(range(20, 20 + size))]
    whole = joined(groups)
    assert whole is not None
    assert {*whole.devices.members} == {rank for one in groups for rank in one.devices.members}
    for one in groups:
        alone = restricted(whole, one.devices.members)
        assert alone is not None
        assert {*alone.devices.members} == {*one.devices.members}
        for rank in one.devices.members:
            assert whole.box(rank) == alone.box(rank) == one.box(rank)


def test_a_layout_that_came_from_another_process_includes_its_equal() -> None:
    # What was worked out of it travels with it.
    assert ROWS.canonical is not None
    sent = pickle.loads(pickle.dumps(ROWS))
    assert sent is not ROWS
    assert includes(sent, ROWS)
    assert includes(ROWS, sent)
    assert not includes(sent, COLUMNS)


def test_groups_of_other_sizes_are_joined_where_they_cut_alike() -> None:
    whole = joined([ROWS, Layout((7, 6), DeviceMatrix((2,), 4), ((0,), ()))])
    assert whole is not None
    assert whole.replica_group(5) == (2, 3, 5)


@pytest.mark.parametrize("other", [COLUMNS, SHARDS, UNEVEN, replace(ROWS, global_shape=(8, 6))])
def test_what_is_cut_otherwise_is_not_joined(other: Layout) -> None:
    assert joined([ROWS, other.on_ranks(range(4, 4 + other.devices.size))]) is None


@pytest.mark.parametrize("ranks", [(0,), (0, 1), (0, 2, 3), (8, 9), (0, 1, 2, 3, 4)])
def test_ranks_that_hold_no_whole_copies_have_no_layout_of_their_own(ranks: tuple[int, ...]) -> None:
    assert restricted(ROWS, ranks) is None


TERMS = Layout((7, 6), DeviceMatrix((2, 2)), ((0,), ()), partial=(1,))


@pytest.mark.parametrize("layout", [ROWS, SHARDS, TERMS])
def test_all_ranks_have_the_layout_itself(layout: Layout) -> None:
    assert restricted(layout, [3, 2, 1, 0]) is layout


@pytest.mark.parametrize(
    ("whole", "part"),
    [
        # Each rank holds the same box, but one term of it.
        (TERMS, ROWS),
        (ROWS, TERMS),
        (ROWS, Layout((7, 6), DeviceMatrix((1,)), ((0,), ()))),
        (ROWS, ROWS.on_ranks([2, 3, 4, 5])),
        (ROWS, Layout((7, 6), DeviceMatrix((2,), 8), ((0,), ()))),
        (ROWS, Layout((7, 6), DeviceMatrix((2,), ranks=(2, 0)), ((0,), ()))),
    ],
)
def test_terms_and_ranks_without_the_same_whole_copies_are_not_included(whole: Layout, part: Layout) -> None:
    assert not includes(whole, part)


def test_a_copy_on_ranks_far_apart_is_included() -> None:
    assert includes(ROWS, Layout((7, 6), DeviceMatrix((2,), ranks=(1, 3)), ((0,), ())))
