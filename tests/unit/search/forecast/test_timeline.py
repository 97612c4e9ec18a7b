"""When stages do what, against sums made by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.graph import Graph, Node, Notes
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.ops import operations as P
from mpiparallel.parallel.border import Arrive, Border, BorderOperator, Send
from mpiparallel.parallel.overlap import Start, Wait
from mpiparallel.pipeline.action import Action, Kind
from mpiparallel.search.cost.timed_nodes import TimedNode
from mpiparallel.search.forecast.timeline import StageTime, stage_times
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
    ],
    ids=["all-hidden", "in-part", "one-after-the-other", "nothing-to-do-meanwhile"],
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
