"""What each node of a rank takes: alone, as one of a message, as one of a kernel, and under way beside others."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.rank_graph import RankGraph
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.overlap import Start, Wait
from mpiparallel.parallel.redistribution import Redistribution, redistribute
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.cost.timed_nodes import TimedNode, scheduled_nodes
from mpiparallel.search.machine.machine import Link, Machine

RANKS = DeviceMatrix((4,))
MACHINE = Machine(
    ranks_per_host=4,
    inside=Link(0.0, 1.0),
    reduction_rate=1e30,
    operation_rate=1.0,
    launch=0.0,
    resuming=100.0,
    cores=4,
)


def value(*shape: int) -> Value:
    return Value(TensorSpec(shape, np.dtype(np.float32)), "value")


def gathered(rows: int) -> Redistribution:
    """Rows of four numbers, of which each rank has a quarter."""
    (step,) = redistribute(Layout((rows, 4), RANKS, ((0,), ())), Layout((rows, 4), RANKS, ((), ())))
    return step


def node(operator: Operator, *inputs: Value, members: tuple[Node, ...] = ()) -> Node:
    made = Node(operator, operator.name, inputs, members=members)
    made.outputs = (Value(inputs[0].spec, "made", made),)
    return made


@pytest.mark.parametrize(
    ("source", "target", "partial", "elements"),
    [
        # Before it is summed, a rank has 8 x 6 numbers; after it, a quarter of the columns.
        (((), ()), ((), ()), (0,), 48),
        (((), ()), ((0,), ()), (0,), 48),
        (((0,), ()), ((), ()), (), 48),
        (((0,), ()), ((), (0,)), (), 16),
    ],
    ids=["reduce", "reduce_scatter", "gather", "exchange"],
)
def test_bytes_are_those_before_a_sum_and_those_after_any_other_move(
    source: tuple[tuple[int, ...], ...], target: tuple[tuple[int, ...], ...], partial: tuple[int, ...], elements: int
) -> None:
    ends = Layout((8, 6), RANKS, source, partial), Layout((8, 6), RANKS, target)
    (step,) = redistribute(*ends)
    assert TimedNode(node(ops.ReLU(), value(8, 6)), 1.0, step).byte_count == 4 * elements


def test_steps_of_one_message_share_its_seconds_by_their_bytes_and_wait_for_what_was_computed_before() -> None:
    work, small, large = node(ops.ReLU(), value(5)), node(ops.ReLU(), value(2, 4)), node(ops.ReLU(), value(6, 4))
    message, again = node(ops.AllGather(), value(4)), node(ops.AllGather(), value(4))
    graph = Graph(nodes=[work, node(ops.ExpandDims(), value(3)), message, again])
    steps = {message: ((small, gathered(8)), (large, gathered(24))), again: ((small, gathered(8)),)}
    found = scheduled_nodes(RankGraph(graph, steps), Prices(MACHINE))
    # 512 bytes in all, of which a rank lacks three quarters; others compute for 5 s before. Then nobody computes.
    seconds = 3 / 4 * 512 + 5.0
    assert [one.node for one in found] == [work, small, large, small]
    assert [one.seconds for one in found] == pytest.approx([5.0, seconds / 4, seconds * 3 / 4, 3 / 4 * 128])
    assert [one.step for one in found] == [None, gathered(8), gathered(24), gathered(8)]
    assert {(one.begins, one.ends) for one in found} == {(None, None)}


def test_steps_that_move_no_bytes_share_the_seconds_of_their_message_alike() -> None:
    message, first, second = (
        node(ops.AllGather(), value(4)),
        node(ops.ReLU(), value(0, 4)),
        node(ops.ReLU(), value(0, 4)),
    )
    work = node(ops.ReLU(), value(6))
    local = RankGraph(Graph(nodes=[work, message]), {message: ((first, gathered(0)), (second, gathered(0)))})
    assert [one.seconds for one in scheduled_nodes(local, Prices(MACHINE))] == [6.0, 3.0, 3.0]


def test_a_collective_that_is_started_is_under_way_until_its_result_is_waited_for() -> None:
    start = Start(ops.AllGather())
    begin, work, end = node(start, value(4)), node(ops.ReLU(), value(7)), node(Wait(start), value(4))
    moved = node(ops.ReLU(), value(2, 4))
    local = RankGraph(Graph(nodes=[begin, work, end]), {begin: ((moved, gathered(8)),)})
    began, worked, ended = scheduled_nodes(local, Prices(MACHINE))
    assert (began.node, began.begins, began.ends) == (moved, start, None)
    # Nobody has computed before, so nobody waits.
    assert began.seconds == 3 / 4 * 128
    assert (worked.seconds, worked.begins, worked.ends) == (7.0, None, None)
    assert (ended.node, ended.seconds, ended.step, ended.begins, ended.ends) == (end, 0.0, None, None, start)


def test_the_operators_of_one_kernel_share_what_it_takes_by_what_each_would_take() -> None:
    """What they pass on is neither read nor written, so by memory the kernel takes half of what both would."""
    first = node(ops.ReLU(), value(8))
    second = node(ops.Sqrt(), first.outputs[0])
    joined = node(ops.ReLU(), first.inputs[0], members=(first, second))
    machine = Machine(ranks_per_host=1, operation_rate=1e30, memory_bandwidth=1.0, launch=0.0)
    found = scheduled_nodes(RankGraph(Graph(nodes=[joined]), {}), Prices(machine))
    assert [one.node for one in found] == [first, second]
    # 32 bytes in and 32 out.
    assert [one.seconds for one in found] == pytest.approx([32.0, 32.0])
