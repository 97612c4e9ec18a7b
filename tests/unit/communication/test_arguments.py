"""What callers pass to a communicator is accepted as it is, or refused with the call and what was found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel.communication import arguments
from mpiparallel.errors import CommunicationError

READ_ONLY = np.zeros((2, 3))
READ_ONLY.flags.writeable = False
BYTES = np.zeros(6, np.uint8)
FIXED_BYTES = np.zeros(6, np.uint8)
FIXED_BYTES.flags.writeable = False
ROWS: Any = np.arange(6.0).reshape(2, 3)
TEXT: Any = "text"
TALL = np.zeros((4, 2), np.float32)


@pytest.mark.parametrize("take", [arguments.flat, arguments.writable])
def test_an_array_is_seen_as_one_row_of_the_same_memory(take: Callable[..., Any]) -> None:
    array = ROWS.copy()
    found = take("send", array)
    assert found.tolist() == [0, 1, 2, 3, 4, 5]
    assert np.shares_memory(found, array)
    assert take("send", np.array(7.0)).tolist() == [7]


def test_bytes_of_an_array_are_seen_without_a_copy() -> None:
    row = np.array([1, 256], np.uint16)
    assert arguments.as_bytes(row).tolist() == list(row.tobytes())
    assert np.shares_memory(arguments.as_bytes(row), row)


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (lambda: arguments.flat("send", [1]), "send: got list, not a NumPy array; use numpy.array(...)"),  # type: ignore[arg-type]
        (
            lambda: arguments.flat("send", np.array([{}])),
            "send: an array of dtype object holds Python objects, which cannot be sent",
        ),
        (
            lambda: arguments.flat("send", ROWS.T),
            "send: an array of shape (3, 2) is not C-contiguous; pass numpy.ascontiguousarray(...)",
        ),
        (
            lambda: arguments.writable("receive", READ_ONLY),
            "receive: an array of shape (2, 3) is read-only; pass a copy of it",
        ),
    ],
)
def test_an_array_that_cannot_travel_is_refused(refused: Callable[[], object], words: str) -> None:
    with pytest.raises(CommunicationError) as caught:
        refused()
    assert str(caught.value) == words


def test_an_array_that_is_only_read_may_be_read_only() -> None:
    assert arguments.flat("send", READ_ONLY).shape == (6,)


PROBLEMS: dict[str, tuple[Callable[[], str | None], str | None]] = {
    "blocks that fit": (lambda: arguments.blocks_problem("all_gather", np.zeros(6), np.zeros(2), 3), None),
    "blocks in another byte order": (
        lambda: arguments.blocks_problem("all_gather", np.zeros(6, ">f8"), np.zeros(2, ">f8"), 3),
        None,
    ),
    "blocks of another dtype": (
        lambda: arguments.blocks_problem("all_gather", np.zeros(6), np.zeros(2, np.int8), 3),
        "all_gather: source and target must have one dtype, got float64 and int8",
    ),
    "blocks of another number": (
        lambda: arguments.blocks_problem("all_gather", np.zeros(6), np.zeros(2), 4),
        "all_gather: 4 members with blocks of 2 elements need 8, got 6",
    ),
    "a pair that is alike": (lambda: arguments.pair_problem("all_to_all", np.zeros(6), np.zeros(6), 3), None),
    "a pair in another byte order": (
        lambda: arguments.pair_problem("all_to_all", np.zeros(6, ">f8"), np.zeros(6, ">f8"), 3),
        None,
    ),
    "a pair of unlike dtypes": (
        lambda: arguments.pair_problem("all_to_all", np.zeros(6), np.zeros(6, np.int8), 3),
        "all_to_all: source and target must be alike, got 6 elements of float64 and 6 of int8",
    ),
    "a pair of unlike sizes": (
        lambda: arguments.pair_problem("all_to_all", np.zeros(6), np.zeros(3), 3),
        "all_to_all: source and target must be alike, got 6 elements of float64 and 3 of float64",
    ),
    "a pair that cannot be cut": (
        lambda: arguments.pair_problem("all_to_all", np.zeros(6), np.zeros(6), 4),
        "all_to_all: 6 elements cannot be cut into 4 equal blocks; use all_to_all_v",
    ),
    "counts that fit": (lambda: arguments.counts_problem("all_to_all_v", "source", BYTES, [2, 0, 4], 3), None),
    "counts above zero": (lambda: arguments.counts_problem("all_to_all_v", "source", BYTES, [2, 4], 2), None),
    "counts of no bytes": (
        lambda: arguments.counts_problem("all_to_all_v", "source", np.zeros(6, np.int8), [2, 4], 2),
        "all_to_all_v: source has dtype int8; pass bytes, a view as numpy.uint8",
    ),
    "too few counts": (
        lambda: arguments.counts_problem("all_to_all_v", "target", BYTES, [2, 4], 3),
        "all_to_all_v: target_counts has 2 entries for 3 members",
    ),
    "too many counts": (
        lambda: arguments.counts_problem("all_to_all_v", "target", BYTES, [2, 4], 1),
        "all_to_all_v: target_counts has 2 entries for 1 members",
    ),
    "a count below zero": (
        lambda: arguments.counts_problem("all_to_all_v", "target", BYTES, (7, -1), 2),
        "all_to_all_v: target_counts [7, -1] do not sum to the 6 bytes of target",
    ),
    "counts of too much": (
        lambda: arguments.counts_problem("all_to_all_v", "target", BYTES, (7, 0), 2),
        "all_to_all_v: target_counts [7, 0] do not sum to the 6 bytes of target",
    ),
    "counts of too little": (
        lambda: arguments.counts_problem("all_to_all_v", "target", BYTES, (5, 0), 2),
        "all_to_all_v: target_counts [5, 0] do not sum to the 6 bytes of target",
    ),
    "the first member": (lambda: arguments.member_problem("reduce", 0, 3), None),
    "the last member": (lambda: arguments.member_problem("reduce", 2, 3), None),
    "a member before the first": (
        lambda: arguments.member_problem("reduce", -1, 3),
        "reduce: there is no member -1; members are counted 0 to 2",
    ),
    "a member behind the last": (
        lambda: arguments.member_problem("reduce", 3, 3),
        "reduce: there is no member 3; members are counted 0 to 2",
    ),
    "a peer by the first tag": (lambda: arguments.peer_problem("send", 1, 0, 3, 0), None),
    "a peer by the last tag": (lambda: arguments.peer_problem("send", 2, 1, 3, 32766), None),
    "a message to oneself": (
        lambda: arguments.peer_problem("send", 1, 1, 3, 0),
        "send: member 1 names itself; a message to oneself may block for ever",
    ),
    "a tag below zero": (lambda: arguments.peer_problem("send", 2, 1, 3, -1), "send: tag -1 is not in 0 to 32766"),
    "a tag that is kept": (
        lambda: arguments.peer_problem("send", 2, 1, 3, 32767),
        "send: tag 32767 is not in 0 to 32766",
    ),
    "a peer that is no member": (
        lambda: arguments.peer_problem("send", 3, 1, 3, 0),
        "send: there is no member 3; members are counted 0 to 2",
    ),
    "what was not freed": (lambda: arguments.freed_problem("run", False), None),
    "what was freed": (lambda: arguments.freed_problem("run", True), "run: it was freed; make a new one"),
    "a block of nothing": (lambda: arguments.length_problem("share", 0), None),
    "a block of less than nothing": (
        lambda: arguments.length_problem("share", -1),
        "share: a block cannot have -1 bytes; pass 0 or more",
    ),
    "memory that is seen": (lambda: arguments.shared_problem(2, {2: 0, 1: 0}), None),
    "memory that is not seen": (
        lambda: arguments.shared_problem(0, {2: 0, 1: 0}),
        "share: the memory of member 0 is not seen here; seen are members [1, 2] of this host",
    ),
    "an exchange of bytes": (lambda: arguments.exchange_problem({0: FIXED_BYTES}, {1: BYTES}, 2), None),
    "an exchange of nothing": (lambda: arguments.exchange_problem({}, {}, 2), None),
    "an exchange to no member": (
        lambda: arguments.exchange_problem({2: BYTES}, {}, 2),
        "exchange: there is no member 2; members are counted 0 to 1",
    ),
    "an exchange from no member": (
        lambda: arguments.exchange_problem({}, {-1: BYTES}, 2),
        "exchange: there is no member -1; members are counted 0 to 1",
    ),
    "an exchange of text": (
        lambda: arguments.exchange_problem({0: TEXT}, {}, 2),
        "exchange: got str; pass bytes, array.reshape(-1).view(numpy.uint8)",
    ),
    "an exchange of floats": (
        lambda: arguments.exchange_problem({}, {1: TALL.reshape(-1)}, 2),  # type: ignore[dict-item]
        "exchange: got an array of 1 dims, dtype float32 and strides (4,); "
        "pass bytes, array.reshape(-1).view(numpy.uint8)",
    ),
    "an exchange of a table": (
        lambda: arguments.exchange_problem({1: BYTES.reshape(2, 3)}, {}, 2),
        "exchange: got an array of 2 dims, dtype uint8 and strides (3, 1); "
        "pass bytes, array.reshape(-1).view(numpy.uint8)",
    ),
    "an exchange of every second byte": (
        lambda: arguments.exchange_problem({1: BYTES[::2]}, {}, 2),
        "exchange: got an array of 1 dims, dtype uint8 and strides (2,); "
        "pass bytes, array.reshape(-1).view(numpy.uint8)",
    ),
    "an exchange into what is fixed": (
        lambda: arguments.exchange_problem({}, {0: BYTES, 1: FIXED_BYTES}, 2),
        "exchange: an array of 6 bytes is read-only; receive into a copy of it",
    ),
    "views": (lambda: arguments.views_problem({0: [READ_ONLY, TALL.T]}, {1: [TALL[:, 1]], 0: []}, 2), None),
    "views to no member": (
        lambda: arguments.views_problem({2: []}, {}, 2),
        "strided_exchange: there is no member 2; members are counted 0 to 1",
    ),
    "views from no member": (
        lambda: arguments.views_problem({}, {3: []}, 2),
        "strided_exchange: there is no member 3; members are counted 0 to 1",
    ),
    "a view of text": (
        lambda: arguments.views_problem({0: [TALL, TEXT]}, {}, 2),
        "strided_exchange: got str, not a NumPy array; use numpy.array(...)",
    ),
    "a view of objects": (
        lambda: arguments.views_problem({}, {0: [np.array([{}])]}, 2),
        "strided_exchange: an array of dtype object holds Python objects, which cannot be sent",
    ),
    "a view into what is fixed": (
        lambda: arguments.views_problem({}, {1: [TALL, READ_ONLY]}, 2),
        "strided_exchange: an array of shape (2, 3) is read-only; receive into a copy of it",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_is_wrong_is_said_with_its_numbers_and_nothing_where_all_is_well(name: str) -> None:
    find, wanted = PROBLEMS[name]
    found = find()
    assert found == wanted
    if wanted is None:
        arguments.refuse(found)
        return
    with pytest.raises(CommunicationError) as caught:
        arguments.refuse(found)
    assert str(caught.value) == wanted


def test_views_agree_where_shapes_dtypes_and_order_do() -> None:
    assert arguments.forms([TALL, ROWS.T]) == [((4, 2), "<f4"), ((3, 2), "<f8")]
    assert arguments.forms([TALL]) == arguments.forms([np.ones((4, 2), np.float32, order="F")])
    assert arguments.unlike_views(2, 5) == (
        "strided_exchange: the views that member 2 sends to member 5 are not like those that member 5 receives; "
        "both must list equal shapes and dtypes in one order"
    )


def test_members_of_a_group_ascend_and_those_of_a_world_stand_as_given() -> None:
    assert arguments.group_members([np.int64(7), 3, 5], (1, 3, 5, 7), 5) == (3, 5, 7)
    assert arguments.world_members([7, 3, np.int64(5)], (1, 3, 5, 7), 5) == (7, 3, 5)
    assert all(type(rank) is int for rank in arguments.world_members(np.array([1, 3]), (1, 3), 3))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("choose", "call"), [(arguments.group_members, "group"), (arguments.world_members, "world_of")]
)
@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([3, 1, 3], "ranks [1, 3, 3] name a rank twice"),
        ([9, 3, 8], "ranks [8, 9] are not among this communicator's ranks [1, 3, 5]"),
        ([5, 1], "rank 3 is not one of [1, 5]; only members may ask for it"),
        ([], "rank 3 is not one of []; only members may ask for it"),
    ],
)
def test_members_that_cannot_be_are_refused_by_rank(
    choose: Callable[..., object], call: str, ranks: list[int], words: str
) -> None:
    with pytest.raises(CommunicationError) as caught:
        choose(ranks, (1, 3, 5), 3)
    assert str(caught.value) == f"{call}: {words}"
