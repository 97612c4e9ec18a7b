"""When stages do what, against sums made by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mpiparallel import Tensor, nn
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.graph.graph import Graph, Node, Notes
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.ops import operations as P
from mpiparallel.parallel.border import Arrive, Border, BorderOperator, Send
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.parallel.overlap import Start, Wait
from mpiparallel.pipeline.action import Action, Kind
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.cost.timed_nodes import TimedNode, timed_nodes
from mpiparallel.search.forecast.timeline import StageTime, bubble, counted_seconds, stage_times
from mpiparallel.search.machine.machine import Link, Machine

FIRST, SECOND = Start(P.AllReduce()), Start(P.AllReduce())


def _work(seconds: float) -> TimedNode:
    return TimedNode(Node(P.ReLU(), "work", ()), seconds)


def _begin(start: Start, seconds: float) -> TimedNode:
    return TimedNode(Node(start, "begin", ()), seconds, begins=start)


def _end(start: Start) -> TimedNode:
    return TimedNode(Node(Wait(start), "end", ()), 0.0, ends=start)


@pytest.mark.parametrize(
    ("nodes", "busy", "hidden"),
    [
        ([_work(2.0), _begin(FIRST, 3.0), _work(4.0), _end(FIRST), _work(1.0)], 7.0, 3.0),
        ([_work(2.0), _begin(FIRST, 5.0), _work(4.0), _end(FIRST), _work(1.0)], 8.0, 4.0),
        ([_begin(FIRST, 3.0), _begin(SECOND, 3.0), _work(4.0), _end(SECOND), _end(FIRST)], 6.0, 4.0),
        ([_begin(FIRST, 3.0), _end(FIRST)], 3.0, 0.0),
        ([_begin(FIRST, 1.0), _work(4.0), _begin(SECOND, 3.0), _end(SECOND), _end(FIRST), _work(1.0)], 8.0, 1.0),
        ([_begin(FIRST, 3.0), _work(1.0), _begin(SECOND, 2.0), _end(FIRST), _end(SECOND)], 5.0, 1.0),
    ],
    ids=["all-hidden", "in-part", "one-after-the-other", "nothing-to-do-meanwhile", "done-before", "in-order"],
)
def test_a_collective_costs_what_is_left_of_it_where_its_result_is_needed(nodes, busy, hidden) -> None:
    assert stage_times([nodes], Machine()) == (StageTime(busy, 0.0, hidden),)


FORWARD, BACK, SEND = Action(Kind.FORWARD), Action(Kind.WEIGHT_GRADIENT), Action(Kind.SEND_ACTIVATIONS, peer=1)


def _acting(action: Action | None, seconds: float) -> TimedNode:
    return TimedNode(Node(P.ReLU(), "work", (), notes=Notes(action=action)), seconds)


def test_nodes_of_one_action_are_one_piece_and_messages_none() -> None:
    nodes = [_acting(None, 1.0), *(_acting(one, 2.0) for one in (FORWARD, FORWARD, SEND, BACK))]
    (found,) = stage_times([nodes], Machine())
    assert [(one.stage, one.action, one.begin, one.end) for one in found.actions] == [
        (0, FORWARD, 1.0, 5.0),
        (0, BACK, 7.0, 9.0),
    ]


def _message(operator: type[BorderOperator], tag: int) -> TimedNode:
    first, second = (Layout((4,), DeviceMatrix((1,), rank), ((),)) for rank in (0, 1))
    value = Graph().add_input("x", TensorSpec((4,), np.dtype(np.float32)))
    return TimedNode(Node(operator(Border(tag, first, second)), "message", (value,)), 0.0)


def test_a_stage_waits_for_what_is_sent_and_stages_that_wait_for_each_other_are_told() -> None:
    machine = Machine(inside=Link(1.0, 8.0), ranks_per_host=2)
    first = [_work(2.0), _message(Send, 7), _message(Arrive, 8), _work(1.0)]
    second = [_work(4.0), _message(Arrive, 7), _work(1.0), _message(Send, 8)]
    # The first message is there at 2 + 1 + 16 / 8 = 5, the second at 5 + 1 + 1 + 2 = 9.
    assert [one.end for one in stage_times([first, second], machine)] == [10.0, 6.0]
    third = [_work(3.0)]
    for stages, waiting in (([first[::-1], second, third], [0, 1]), ([third, first, second[:-1]], [1])):
        with pytest.raises(ValueError, match=re.escape(f"stages {waiting} wait for each other")):
            stage_times(stages, machine)


def test_a_node_that_is_no_redistribution_moves_no_bytes() -> None:
    assert _work(1.0).byte_count == 0


@pytest.mark.parametrize(
    ("actions", "pieces"),
    [
        ((FORWARD, BACK, BACK), [(FORWARD, 0.0, 2.0), (BACK, 2.0, 6.0)]),
        ((FORWARD, BACK, FORWARD), [(FORWARD, 0.0, 2.0), (BACK, 2.0, 4.0), (FORWARD, 4.0, 6.0)]),
        ((FORWARD, None, FORWARD), [(FORWARD, 0.0, 2.0), (FORWARD, 4.0, 6.0)]),
        ((FORWARD, SEND, FORWARD), [(FORWARD, 0.0, 2.0), (FORWARD, 4.0, 6.0)]),
    ],
)
def test_an_action_goes_on_where_the_last_one_has_just_ended(
    actions: tuple[Action | None, ...], pieces: list[tuple[Action, float, float]]
) -> None:
    (found,) = stage_times([[_acting(one, 2.0) for one in actions]], Machine())
    assert [(one.action, one.begin, one.end) for one in found.actions] == pieces


def test_what_takes_no_time_is_no_piece() -> None:
    (found,) = stage_times([[_acting(FORWARD, 0.0), _acting(BACK, 1.0)]], Machine())
    assert [one.action for one in found.actions] == [BACK]


def test_what_has_arrived_before_it_is_needed_is_not_waited_for() -> None:
    machine = Machine(inside=Link(1.0, 8.0), ranks_per_host=2)
    first, second = [_work(2.0), _message(Send, 7)], [_work(8.0), _message(Arrive, 7), _work(1.0)]
    assert stage_times([first, second], machine) == (StageTime(2.0, 0.0), StageTime(9.0, 0.0))
    # At 2 + 1 + 16 / 8 it is there.
    second[0] = _work(4.0)
    assert stage_times([first, second], machine)[1] == StageTime(5.0, 1.0)


def test_an_action_that_has_to_wait_comes_in_pieces_of_its_own_stage() -> None:
    machine = Machine(inside=Link(1.0, 8.0), ranks_per_host=2)
    first = [_work(2.0), _message(Send, 7)]
    second = [_acting(BACK, 1.0), _message(Arrive, 7), _acting(BACK, 2.0)]
    _, found = stage_times([first, second], machine)
    assert [(one.stage, one.begin, one.end) for one in found.actions] == [(1, 0.0, 1.0), (1, 5.0, 7.0)]
    assert (found.busy, found.waiting, found.end) == (3.0, 4.0, 7.0)


def test_a_search_counts_each_operator_and_each_collective_by_itself() -> None:
    network = nn.SequentialCell(*(nn.Dense(16, 16, has_bias=False) for _ in range(2)))
    for layer, cuts in zip(network, (((1, 1), (4, 1)), ((2, 1), (2, 1))), strict=True):
        layer.matmul.shard(cuts)
    configuration = ParallelConfiguration("semi_auto_parallel", device_num=4)
    sharded = network.sharded_graph(Tensor(np.ones((8, 16), np.float32)), configuration=configuration)
    prices = Prices(Machine(ranks_per_host=4))
    apart = timed_nodes(sharded, prices)
    assert sum(one.step is not None for one in apart) >= 1
    assert counted_seconds(StagedGraph((sharded,)), prices) == pytest.approx(sum(one.seconds for one in apart))


@pytest.mark.parametrize(
    ("stages", "idle"),
    [
        ([(4.0, 0.0)], 0.0),
        ([(4.0, 4.0)], 0.5),
        # Of three stages, one of which ends earlier than the others: 7 of 12 seconds.
        ([(2.0, 2.0), (1.0, 3.0), (2.0, 1.0)], 7 / 12),
    ],
)
def test_a_bubble_is_the_part_of_a_step_in_which_stages_do_nothing(
    stages: list[tuple[float, float]], idle: float
) -> None:
    assert bubble([StageTime(*one) for one in stages]) == pytest.approx(idle)
