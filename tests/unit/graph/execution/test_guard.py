"""What waits for a flag runs only in runs in which it holds, and with it the communication that it needs."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.context import GRAPH_MODE, PYNATIVE_MODE, set_context
from mpiparallel.graph.execution.guard import only_if, put_back_updates, take_back_updates
from mpiparallel.graph.execution.program import Profile


def number(value, name):
    return ms.Parameter(np.asarray(value, np.float32), name, requires_grad=False)


class Counting(nn.Cell):
    """Adds one where x is positive, and one more where it is above 10."""

    def __init__(self):
        super().__init__()
        self.positive, self.large = number(0, "positive"), number(0, "large")
        self.first, self.second, self.always = number(0, "first"), number(0, "second"), number(0, "always")

    def construct(self, x):
        ops.Assign()(self.positive, (x > 0).astype(np.float32))
        only_if(self.positive, lambda: self.inside(x))
        ops.AssignAdd()(self.always, 1.0)
        return x * 2

    def inside(self, x):
        ops.AssignAdd()(self.first, 1.0)
        ops.Assign()(self.large, (x > 10).astype(np.float32))
        only_if(self.large, lambda: ops.AssignAdd()(self.second, 1.0))


@pytest.mark.parametrize("mode", [GRAPH_MODE, PYNATIVE_MODE])
def test_each_run_decides_anew_and_guards_may_lie_in_one_another(mode) -> None:
    cell = Counting()
    set_context(mode=mode)
    try:
        results = [float(cell(ms.Tensor(value))) for value in (1.0, -20.0, 30.0, -30.0, 5.0)]
    finally:
        set_context(mode=GRAPH_MODE)
    assert results == [2.0, -40.0, 60.0, -60.0, 10.0]
    assert [float(one.asnumpy()) for one in (cell.first, cell.second, cell.always)] == [3.0, 1.0, 5.0]


def test_a_profile_counts_what_ran() -> None:
    cell, profile = Counting(), Profile()
    for value in (1.0, -1.0, -1.0):
        cell.program(ms.Tensor(value), profile=profile)
    assert profile.steps == 3
    assert profile.total >= sum(profile.operators.values()) > 0
    assert float(cell.first.asnumpy()) == 1.0


class SumOfRows(nn.Cell):
    """Adds up the sum of a cut matrix, but only where the flag says so."""

    def __init__(self):
        super().__init__()
        self.flag = number(0, "flag")
        self.total = number(0, "total")
        self.sum = ops.ReduceSum().shard(((4, 1),))

    def construct(self, x, wanted):
        ops.Assign()(self.flag, wanted)
        found = self.sum(x)
        only_if(self.flag, lambda: ops.AssignAdd()(self.total, found))


def add_up(_communicator):
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    cell = SumOfRows()
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    for wanted in (1.0, 0.0, 1.0, 0.0):
        cell(ms.Tensor(x), ms.Tensor(wanted))
    return float(cell.total.asnumpy())


def test_communication_for_what_is_guarded_is_left_out_with_it() -> None:
    assert run_world(4, add_up) == [56.0] * 4


class HoldingBack(nn.Cell):
    """Overwrites before it is known whether it should: once unread, once read again."""

    def __init__(self):
        super().__init__()
        self.flag, self.unread, self.read = number(0, "flag"), number(1, "unread"), number(1, "read")

    def construct(self, x):
        ops.Assign()(self.unread, x)
        ops.Assign()(self.read, x)
        seen = self.read * 10
        held_back = take_back_updates()
        ops.Assign()(self.flag, (x > 0).astype(np.float32))
        only_if(self.flag, lambda: put_back_updates(held_back))
        return seen


def test_updates_that_nobody_reads_can_wait_for_the_flag_the_others_stay() -> None:
    cell = HoldingBack()
    assert float(cell(ms.Tensor(5.0))) == 50.0
    assert float(cell(ms.Tensor(-7.0))) == -70.0
    assert float(cell.unread.asnumpy()) == 5.0
    assert float(cell.read.asnumpy()) == -7.0


class Chain(nn.Cell):
    """Overwrites one parameter by another, and then that one, which is read again."""

    def __init__(self):
        super().__init__()
        self.flag, self.first, self.second = number(0, "flag"), number(1, "first"), number(2, "second")

    def construct(self, x):
        ops.Assign()(self.first, self.second)
        seen = x * 3
        ops.Assign()(self.second, x)
        seen = seen + self.second * 10
        held_back = take_back_updates()
        ops.Assign()(self.flag, (x > 0).astype(np.float32))
        only_if(self.flag, lambda: put_back_updates(held_back))
        return seen


def test_an_update_does_not_wait_where_what_it_reads_is_overwritten_meanwhile() -> None:
    cell = Chain()
    for value, before in ((5.0, 2.0), (-7.0, 5.0), (4.0, -7.0)):
        assert float(cell(ms.Tensor(value))) == 13 * value
        assert float(cell.first.asnumpy()) == before
        assert float(cell.second.asnumpy()) == value


class HoldingSeveral(nn.Cell):
    """Overwrites four parameters, between other things, before it is known whether it should."""

    def __init__(self):
        super().__init__()
        self.flag = number(0, "flag")
        self.kept = ms.ParameterTuple([number(0, f"kept{place}") for place in range(4)])
        self.names = []

    def construct(self, x):
        for place, parameter in enumerate(self.kept):
            ops.Assign()(parameter, x + float(place))
        held_back = take_back_updates()
        self.names.extend(node.name for node in held_back)
        ops.Assign()(self.flag, (x > 0).astype(np.float32))
        only_if(self.flag, lambda: put_back_updates(held_back))
        return x


def test_all_updates_that_wait_are_made_in_their_order_or_none_is() -> None:
    cell = HoldingSeveral()
    for value, wanted in ((-7.0, [0.0] * 4), (5.0, [5.0, 6.0, 7.0, 8.0]), (-1.0, [5.0, 6.0, 7.0, 8.0])):
        cell(ms.Tensor(value))
        assert [float(one.asnumpy()) for one in cell.kept] == wanted
    assert cell.names == ["Assign", "Assign-1", "Assign-2", "Assign-3"]


def test_outside_a_network_an_update_is_made_at_once_and_nothing_waits() -> None:
    given = number(1, "given")
    ops.Assign()(given, 5.0)
    assert take_back_updates() == []
    put_back_updates([])
    assert float(given.asnumpy()) == 5.0
