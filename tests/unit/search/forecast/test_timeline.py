"""When stages do what, against sums made by hand."""

from __future__ import annotations

import pytest

from mpiparallel.graph.graph import Node, Notes
from mpiparallel.ops import operations as P
from mpiparallel.parallel.overlap import Start, Wait
from mpiparallel.pipeline.action import Action, Kind
from mpiparallel.search.cost.timed_nodes import TimedNode
from mpiparallel.search.forecast.timeline import StageTime, stage_times
from mpiparallel.search.machine.machine import Machine

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


def test_a_node_that_is_no_redistribution_moves_no_bytes() -> None:
    assert _work(1.0).byte_count == 0
