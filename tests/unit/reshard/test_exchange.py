from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ReshardError
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.bound_plan import BoundPlan, PeerPieces, bind
from mpiparallel.reshard.exchange import Exchange
from mpiparallel.reshard.planning.plan import plan_reshard

Arrays = dict[str, NDArray[Any]]

HALVES = Layout((6,), DeviceMatrix((2,)), ((0,),))
THIRDS = Layout((6,), DeviceMatrix((3,)), ((0,),))
WHOLE = Layout((6,), DeviceMatrix((3,)), ((),))


def test_an_exchange_runs_many_times_between_the_same_strided_arrays() -> None:
    pairs = {"w": (HALVES, THIRDS)}

    def move(communicator: Communicator) -> list[list[int]]:
        rank = communicator.rank
        source, target = np.zeros((6, 2), np.int16)[::2, 0], np.zeros((2, 3), np.int16)[:, 1]
        sources = {"w": source} if rank < 2 else {}
        exchange = Exchange(plan_reshard(pairs, rank), pairs, sources, {"w": target}, communicator)
        assert (exchange.bytes_sent, exchange.bytes_received) == [(2, 0), (4, 2), (0, 4)][rank]
        seen = []
        for step in (0, 10):
            source[:] = np.arange(3) + 3 * rank + step
            exchange.run()
            seen.append(target.tolist())
        return seen

    assert run_world(3, move) == [[[0, 1], [10, 11]], [[2, 3], [12, 13]], [[4, 5], [14, 15]]]


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        ({"w": np.zeros(2)}, {"w": np.zeros(2)}, r"w on rank 0: expected an array of shape \(3,\), got an .* \(2,\)"),
        ({}, {"w": np.zeros(2)}, r"w on rank 0: expected an array of shape \(3,\), got no array"),
        ({"w": np.zeros(3)}, {}, r"w on rank 0: expected an array of shape \(2,\), got no array"),
        ({"w": np.zeros(3)}, {"w": np.zeros(2, "f4")}, "w on rank 0: the target is float32, the source float64"),
    ],
)
def test_an_exchange_refuses_arrays_that_do_not_fit(sources: Arrays, targets: Arrays, message: str) -> None:
    pairs = {"w": (HALVES, THIRDS)}

    def bind(communicator: Communicator) -> None:
        if communicator.rank == 0:
            with pytest.raises(ReshardError, match=message):
                Exchange(plan_reshard(pairs, 0), pairs, sources, targets, communicator)

    run_world(3, bind)


def test_an_exchange_may_number_its_members_as_the_plan_does() -> None:
    pairs = {"w": (THIRDS, WHOLE)}

    def move(communicator: Communicator) -> list[int]:
        numbers = (2, 0, 1)
        rank = numbers[communicator.rank]
        source, target = np.arange(6)[THIRDS.box(rank).within(Box.whole((6,)))], np.zeros(6, int)
        plan = plan_reshard(pairs, rank)
        Exchange(plan, pairs, {"w": source}, {"w": target}, communicator, ranks=numbers).run()
        return target.tolist()

    assert run_world(3, move) == [list(range(6))] * 3


@pytest.mark.parametrize(("size", "rank"), [(2, 1), (3, 0)])
def test_an_exchange_refuses_a_communicator_of_other_ranks(size: int, rank: int) -> None:
    pairs = {"w": (HALVES, THIRDS)}

    def bind(communicator: Communicator) -> None:
        if communicator.rank == rank:
            with pytest.raises(ReshardError, match="the plan of rank 1 exchanges with ranks"):
                Exchange(plan_reshard(pairs, 1), pairs, {"w": np.zeros(3)}, {"w": np.zeros(2)}, communicator)

    run_world(size, bind)


@pytest.mark.parametrize(
    ("size", "numbers", "words"),
    [
        (2, None, "the plan of rank 1 exchanges with ranks [0, 1, 2], the communicator is that of rank 1 in [0, 1]"),
        (
            3,
            (2, 0, 1),
            "the plan of rank 1 exchanges with ranks [0, 1, 2], the communicator is that of rank 0 in [2, 0, 1]",
        ),
    ],
)
def test_a_plan_of_other_ranks_is_told_with_both(size: int, numbers: tuple[int, ...] | None, words: str) -> None:
    pairs = {"w": (HALVES, THIRDS)}

    def refusal(communicator: Communicator) -> str | None:
        if communicator.rank != 1:
            return None
        with pytest.raises(ReshardError) as caught:
            bind(plan_reshard(pairs, 1), pairs, {"w": np.zeros(3)}, {"w": np.zeros(2)}, communicator, numbers)
        return str(caught.value)

    assert run_world(size, refusal)[1] == words


def test_a_target_of_another_dtype_is_told_with_both() -> None:
    pairs = {"w": (HALVES, THIRDS)}

    def refusal(communicator: Communicator) -> str:
        plan, source, target = plan_reshard(pairs, 0), np.zeros(3), np.zeros(2, ">f8")
        with pytest.raises(ReshardError) as caught:
            bind(plan, pairs, {"w": source}, {"w": target}, communicator, (0, 1, 2))
        return str(caught.value)

    assert run_world(1, refusal) == [
        "w on rank 0: the target is >f8, the source float64; a reshard moves elements, it does not convert them"
    ]


def test_streams_are_in_the_order_of_members_and_know_their_bytes() -> None:
    pairs = {"v": (HALVES, WHOLE), "w": (HALVES, THIRDS), "x": (HALVES, HALVES)}

    def bound(communicator: Communicator) -> BoundPlan:
        targets = {"v": np.zeros(6, "i1"), "w": np.zeros(2, "i2")}
        return bind(
            plan_reshard(pairs, 1),
            pairs,
            {"v": np.array([3, 4, 5], "i1"), "w": np.array([3, 4, 5], "i2")},
            targets,
            communicator,
            (1, 2, 0),
        )

    (found,) = run_world(1, bound)
    # Rank 1 is member 0 here; what goes to rank 2, member 1, comes before what goes to rank 0, member 2.
    assert [(one.member, one.tensors, [piece.tolist() for piece in one.pieces]) for one in found.outgoing] == [
        (1, ("v", "w"), [[3, 4, 5], [4, 5]]),
        (2, ("v",), [[3, 4, 5]]),
    ]
    assert [(one.member, one.tensors, one.nbytes) for one in found.incoming] == [(2, ("v", "w"), 3 + 2)]
    assert found.piece_bytes == ([[3, 4], [3]], [[3, 2]])
    assert (found.bytes_sent, found.bytes_received) == (10, 5)
    assert [stream.member for stream in found.only(frozenset({0, 2})).outgoing] == [2]
    assert found.only(frozenset({1})) == BoundPlan(found.outgoing[:1], (), ())
    found.copy_own()
    assert [(target.tolist(), source.tolist()) for target, source in found.copies] == [
        ([3, 4, 5], [3, 4, 5]),
        ([3], [3]),
    ]
    assert PeerPieces(0, (), ()).nbytes == 0
