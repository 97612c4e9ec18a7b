"""What was moved into another layout is moved once, as long as it is the same and is there."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.conversions import Conversions
from mpiparallel.compile.recomputation import Overwritten
from mpiparallel.compile.strategies import Strategies
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.operator_settings import Segment
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

SPEC = TensorSpec((4,), np.dtype(np.float32))
ROWS = Layout((4,), DeviceMatrix((2,)), ((0,),))
SAME = Layout((4,), DeviceMatrix((2, 1)), ((0,),))
WHOLE = Layout((4,), DeviceMatrix((2,)), ((),))
X, FLAG, OTHER_FLAG = (Value(SPEC, name) for name in ("x", "flag", "other flag"))
WEIGHT = Value(SPEC, "weight", parameter=Parameter(np.ones(4, np.float32), "weight"))
AGAIN = Segment(regathers=True, recomputed=True)


def node(*guards: Value, segment: Segment | None = None, origin: Node | None = None) -> Node:
    return Node(ops.ReLU(), "one", (X,), (), Notes(origin=origin, guards=guards, segment=segment))


def test_what_is_kept_is_known_in_equal_layouts_until_it_is_forgotten() -> None:
    made = Conversions[str]()
    assert made.known(X, ROWS) is None
    made.keep(X, ROWS, "rows")
    made.keep(X, WHOLE, "whole")
    assert [made.known(X, layout) for layout in (ROWS, SAME, WHOLE)] == ["rows", "rows", "whole"]
    assert made.known(WEIGHT, ROWS) is None
    made.forget(X)
    made.forget(WEIGHT)
    assert made.known(X, ROWS) is None


@pytest.mark.parametrize(
    ("kept_at", "asked_at", "is_known"),
    [
        ((), (), True),
        ((), (FLAG,), True),
        ((FLAG,), (), False),
        ((FLAG,), (FLAG,), True),
        ((FLAG,), (FLAG, OTHER_FLAG), True),
        ((FLAG, OTHER_FLAG), (FLAG,), False),
        ((FLAG,), (OTHER_FLAG,), False),
    ],
)
def test_what_is_moved_under_guards_is_there_where_they_hold(
    kept_at: tuple[Value, ...], asked_at: tuple[Value, ...], is_known: bool
) -> None:
    made = Conversions[str]()
    made.at(node(*kept_at))
    made.keep(X, ROWS, "rows")
    made.at(node(*asked_at))
    assert (made.known(X, ROWS) is not None) is is_known
    made.at(None)
    assert (made.known(X, ROWS) is not None) is (kept_at == ())


@pytest.mark.parametrize(
    ("value", "segment", "is_known"),
    [
        (WEIGHT, AGAIN, False),
        (X, AGAIN, True),
        (WEIGHT, Segment(regathers=True), True),
        (WEIGHT, Segment(recomputed=True), True),
        (WEIGHT, None, True),
    ],
)
def test_a_segment_that_gathers_parameters_once_more_reads_none_from_outside(
    value: Value, segment: Segment | None, is_known: bool
) -> None:
    made = Conversions[str]()
    made.at(node())
    made.keep(value, ROWS, "outside")
    inside = node(segment=segment)
    for asks in (inside, node(origin=inside)):
        made.at(asks)
        assert (made.known(value, ROWS) is not None) is is_known
    made.keep(value, ROWS, "inside")
    assert made.known(value, ROWS) == "inside"
    made.at(None)
    assert made.known(value, ROWS) == ("inside" if is_known else "outside")


class Update(Operator):
    """Changes its first input."""

    updates = (0,)


def test_a_parameter_is_overwritten_for_what_has_run_before() -> None:
    graph = Graph()
    first = graph.add_node(ops.ReLU(), "first", [WEIGHT, X], [SPEC])
    graph.add_node(Update(), "update", [WEIGHT, X], [])
    last = graph.add_node(ops.ReLU(), "last", [WEIGHT], [SPEC])
    overwritten = Overwritten(graph)
    assert overwritten.since(first, [X, WEIGHT]) is WEIGHT
    assert overwritten.since(first, [X]) is None
    assert overwritten.since(last, [X, WEIGHT]) is None
    assert overwritten.since(graph.nodes[1], [WEIGHT]) is None


def test_strategies_are_those_of_operators_and_loaded_ones_come_before_them() -> None:
    graph = Graph()
    cut, other, out = ((2,),), ((1,),), ((4,),)
    plain = graph.add_node(ops.ReLU(), "plain", [X], [SPEC])
    told = graph.add_node(ops.ReLU().shard(cut, out), "told", [X], [SPEC])
    gradient = graph.add_node(ops.ReLU().shard(cut, out), "gradient", [X], [SPEC], Notes(origin=told))
    update = graph.add_node(Update().shard(cut, out), "update", [X], [], Notes(origin=told))
    found = Strategies.of(graph)
    assert (found.inputs, found.outputs) == ({told: cut, update: cut}, {told: out})
    loaded = Strategies.of(graph, {"plain": other, "told": other, "gradient": other})
    assert loaded.inputs == {plain: other, told: other, update: cut}
    more = found.with_inputs({plain: other, told: other})
    assert (more.inputs, more.outputs) == ({told: other, update: cut, plain: other}, {told: out})
    assert gradient not in found.inputs
