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
