"""The ends of a crossing between stages: what each does with arrays, and what they cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.threads import run_world
from mpiparallel.graph.cost import Cost
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.border import Arrive, Border, EndSend, Receive, Send

BORDER = Border(5, Layout((6, 4), DeviceMatrix((1,)), ((), ())), Layout((6, 4), DeviceMatrix((1,), 1), ((), ())))
VALUES = np.arange(24, dtype=np.float32).reshape(6, 4)


@pytest.mark.parametrize("in_place", [False, True])
def test_what_was_sent_is_what_arrives_in_the_memory_that_was_received_to_or_in_other(in_place: bool) -> None:
    def job(communicator: Any) -> list[Any]:
        runtime, found = Runtime(communicator=communicator), []
        given = np.zeros((6, 4), np.float32)
        taken = given if in_place else np.full((6, 4), -1, np.float32)
        if communicator.rank == 0:
            kernels = [kind(BORDER).kernel(runtime, [given], []) for kind in (Send, EndSend)]
        else:
            kernels = [Receive(BORDER).kernel(runtime, [], [given]), Arrive(BORDER).kernel(runtime, [given], [taken])]
        for run in range(2):
            if communicator.rank == 0:
                given[...] = VALUES + run
            for kernel in kernels:
                kernel()
            found.append(taken.copy())
        return found

    _, (first, second) = run_world(2, job)
    np.testing.assert_array_equal(first, VALUES)
    np.testing.assert_array_equal(second, VALUES + 1)


WHOLE_ON_0 = Layout((6, 4), DeviceMatrix((1,)), ((), ()))
COLUMNS_ON_1_AND_2 = Layout((6, 4), DeviceMatrix((2,), 1), ((), (0,)))


@pytest.mark.parametrize("is_gathered", [False, True])
def test_columns_cross_from_and_to_the_midst_of_an_array(is_gathered: bool) -> None:
    ends = [WHOLE_ON_0, COLUMNS_ON_1_AND_2]
    border = Border(3, *(ends[::-1] if is_gathered else ends))

    def job(communicator: Any) -> list[Any]:
        runtime, rank, found = Runtime(communicator=communicator), communicator.rank, []
        own = VALUES if rank == 0 else VALUES[:, 2 * rank - 2 : 2 * rank]
        array = np.zeros(own.shape, np.float32)
        if rank in border.source.devices:
            kernels = [kind(border).kernel(runtime, [array], []) for kind in (Send, EndSend)]
        else:
            kernels = [Receive(border).kernel(runtime, [], [array]), Arrive(border).kernel(runtime, [array], [array])]
        for run in range(2):
            if rank in border.source.devices:
                array[...] = own + run
            for kernel in kernels:
                kernel()
            found.append(array - own)
        return found

    for found in run_world(3, job):
        for run, difference in enumerate(found):
            np.testing.assert_array_equal(difference, np.full(difference.shape, run))


@pytest.mark.parametrize("kind", [Send, EndSend, Receive, Arrive])
def test_an_end_that_is_not_laid_out_and_a_job_without_a_world_are_told(kind: Any) -> None:
    operator = kind()
    operator.scope = "net/blocks.1"
    with pytest.raises(ValueError, match=r"^net/blocks\.1: both ends of a crossing are laid out before it is bound$"):
        operator.border  # noqa: B018
    if kind in (Send, Receive):
        with pytest.raises(ValueError, match=r"^a pipeline runs in a world$"):
            kind(BORDER).kernel(Runtime(), [VALUES], [VALUES])


def test_an_end_costs_the_copy_of_what_it_sends_and_to_wait_costs_nothing() -> None:
    spec = TensorSpec((6, 4), np.dtype(np.float32))
    assert Send(BORDER).cost([spec], []) == Cost(0, 96, 96)
    assert Receive(BORDER).cost([spec], [spec]) == Arrive(BORDER).cost([spec], [spec]) == Cost(0)
    assert EndSend(BORDER).cost([spec], []) == Cost(0)
