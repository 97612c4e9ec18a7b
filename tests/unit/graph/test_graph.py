"""Graphs in the making: which nodes stay, how they are named, and what is known of each where it is made."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

from mpiparallel import Parameter, ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.errors import ShapeError
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator_settings import Segment
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, active_trace, recording

SPEC = TensorSpec((2, 3), np.dtype(np.float32))


def given(trace: Trace, name: str = "x") -> Tensor:
    return Tensor.of_value(trace.graph.add_input(name, SPEC))


def names(graph: Graph) -> list[str]:
    return [node.name for node in graph.nodes]


def test_what_no_output_needs_is_dropped_but_for_updates_and_what_gives_nothing() -> None:
    trace, weight = Trace(), Parameter(np.ones((2, 3), np.float32), "weight")
    with recording(trace):
        x = given(trace)
        needed = ops.exp(x)
        ops.sin(needed)
        ops.Assign()(weight, ops.cos(x))
        ops.tanh(ops.sqrt(x))
        trace.graph.outputs = [ops.log(needed).value]
    trace.graph.add_node(ops.ReLU(), "sent", [ops_value(x)], [])
    trace.graph.remove_dead_nodes()
    assert names(trace.graph) == ["Exp", "Cos", "Assign", "Log", "sent"]


def ops_value(tensor: Tensor) -> Value:
    assert isinstance(tensor.value, Value)
    return tensor.value


def test_values_are_called_after_their_nodes_and_print_shape_and_type() -> None:
    graph = Graph()
    node = graph.add_node(ops.ReLU(), "net/ReLU", [graph.add_input("x", SPEC)], [SPEC, SPEC])
    assert [(value.name, value.node, value.index) for value in node.outputs] == [
        ("net/ReLU:0", node, 0),
        ("net/ReLU:1", node, 1),
    ]
    assert repr(node) == "[net/ReLU:0[2, 3]:float32, net/ReLU:1[2, 3]:float32] = net/ReLU(x)"
    constant = graph.add_constant(np.arange(3))
    assert (repr(constant), constant.constant is not None) == ("constant[3]:int64", True)
    weight = Parameter(np.ones(2), "w")
    assert graph.add_parameter(weight, weight.spec) is graph.add_parameter(weight, weight.spec)
    assert [*graph.parameters] == ["w"]


VALUE = Value(SPEC, "value")
ORIGIN = Node(ops.ReLU(), "origin", ())


@pytest.mark.parametrize(
    ("operator", "notes", "is_forward"),
    [
        (ops.ReLU(), Notes(), True),
        (ops.ReLU(), Notes(origin=ORIGIN), False),
        (ops.ReLU(), Notes(like=VALUE), False),
        (ops.Assign(), Notes(), False),
        (ops.ReLU(), Notes(stage=1, follows=True), True),
    ],
)
def test_gradients_and_updates_are_not_of_the_network_itself(operator: Any, notes: Notes, is_forward: bool) -> None:
    assert Node(operator, "node", (VALUE,), (), notes).is_forward == is_forward


def test_names_are_those_of_the_place_and_count_from_the_second_on_anew_for_each_piece_of_the_batch() -> None:
    trace = Trace()
    with recording(trace):
        x = given(trace)
        ops.exp(x)
        with trace.scope("net"):
            ops.exp(x)
            with trace.scope("inner"):
                ops.exp(x)
            ops.exp(x)
            ops.exp(x)
        for number in (0, 1):
            with trace.of_micro_batch(number):
                ops.exp(x)
        with trace.making(trace.graph.nodes[1]):
            ops.exp(x)
            ops.exp(x)
    assert names(trace.graph) == [
        *("Exp", "net/Exp", "net/inner/Exp", "net/Exp-1", "net/Exp-2", "Exp", "Exp"),
        *("gradient/net/Exp/Exp", "gradient/net/Exp/Exp-1"),
    ]
    assert trace.scopes == []


def noted(*within: Callable[[Trace], AbstractContextManager[None]]) -> Notes:
    """Return the notes of a node that is made within all of these, the first the outermost."""
    trace = Trace()
    with recording(trace):
        x = given(trace)
        entered = [one(trace) for one in within]
        for one in entered:
            one.__enter__()
        ops.exp(x)
        for one in reversed(entered):
            one.__exit__(None, None, None)
    assert trace.notes == Notes()
    return trace.graph.nodes[0].notes


OUTER, INNER, FLAG = Segment(), Segment(regathers=True), Value(SPEC, "flag")
MADE = Node(ops.ReLU(), "made", (), (), Notes(stage=2, micro_batch=3, segment=OUTER))
LIKE = Value(SPEC, "like", MADE)


@pytest.mark.parametrize(
    ("within", "notes"),
    [
        ([lambda trace: trace.guarded_by(VALUE), lambda trace: trace.guarded_by(FLAG)], Notes(guards=(VALUE, FLAG))),
        ([lambda trace: trace.recomputed(OUTER), lambda trace: trace.recomputed(INNER)], Notes(segment=OUTER)),
        ([lambda trace: trace.in_stage(1), lambda trace: trace.in_stage(0)], Notes(stage=0)),
        ([lambda trace: trace.of_micro_batch(0)], Notes(micro_batch=0)),
        ([lambda trace: trace.making(MADE)], Notes(origin=MADE, stage=2, micro_batch=3)),
        ([lambda trace: trace.making(like=LIKE)], Notes(like=LIKE, stage=2, micro_batch=3)),
        ([lambda trace: trace.making(ORIGIN, LIKE)], Notes(origin=ORIGIN, like=LIKE, stage=2, micro_batch=3)),
        ([lambda trace: trace.in_stage(1), lambda trace: trace.making(like=VALUE)], Notes(like=VALUE)),
        ([lambda trace: trace.recomputed(OUTER), lambda trace: trace.making(ORIGIN)], Notes(origin=ORIGIN)),
    ],
)
def test_a_node_knows_where_it_was_made(
    within: list[Callable[[Trace], AbstractContextManager[None]]], notes: Notes
) -> None:
    assert noted(*within) == notes


def test_an_operators_own_segment_holds_where_its_cell_has_none_and_after_a_gradient_layouts_follow() -> None:
    trace = Trace()
    with recording(trace):
        x = given(trace)
        own = ops.Exp().recompute()
        own(x)
        with trace.recomputed(OUTER):
            own(x)
        trace.differentiated = True
        ops.exp(x)
    segments = [node.notes.segment for node in trace.graph.nodes]
    assert segments == [own.segment, OUTER, None]
    assert [node.notes.follows for node in trace.graph.nodes] == [False, False, True]


def test_what_a_function_has_returned_is_known_until_a_parameter_changes_and_under_the_same_flags() -> None:
    trace, weight = Trace(), Parameter(np.ones((2, 3), np.float32), "weight")
    with recording(trace):
        x = given(trace)
        inputs = (ops_value(x),)
        trace.keep_result("function", inputs, "result")
        ops.exp(x)
        assert trace.kept_result("function", inputs) == "result"
        assert trace.kept_result("other", inputs) is None
        assert trace.kept_result("function", ()) is None
        with trace.guarded_by(VALUE):
            assert trace.kept_result("function", inputs) is None
        ops.Assign()(weight, x)
        assert trace.kept_result("function", inputs) is None
        trace.keep_result("function", inputs, "later")
        assert trace.kept_result("function", inputs) == "later"


def test_conditions_are_noted_once_as_they_were_and_those_within_are_part_of_the_outer() -> None:
    trace, answers = Trace(), iter([True, False, False])

    def condition() -> bool:
        return next(answers)

    def within() -> str:
        raise AssertionError("it is part of the outer")

    for _ in range(2):
        with trace.depending_on(condition, within), trace.depending_on(within, within):
            pass
    assert trace.conditions == {condition: True}
    assert trace.attributes == [within] * 2


def test_a_trace_knows_the_operators_of_the_program_and_how_they_were_set() -> None:
    trace, whole = Trace(), ops.Softmax().shard(((2, 1),))
    with recording(trace):
        x = given(trace)
        part = ops.Exp().configured(step_of=whole)
        ops.ReLU()(part(x))
    assert [type(one).__name__ for one in trace.operators] == ["Exp", "Softmax", "ReLU"]
    assert trace.operators[whole] == (((2, 1),), None, None)
    assert part in trace.operators


def test_operators_are_recorded_where_a_trace_is_active_alone() -> None:
    trace, x = Trace(), Tensor(np.zeros((2, 3), np.float32))
    with recording(trace):
        assert active_trace() is trace
        with recording(None):
            assert active_trace() is None
            assert ops.exp(x).tolist() == [[1.0] * 3] * 2
        assert ops.exp(x).value is not None
    assert active_trace() is None
    assert len(trace.graph.nodes) == 1


def test_what_does_not_fit_is_named_by_the_line_the_place_and_the_operator() -> None:
    trace = Trace()
    with recording(trace), trace.scope("net"), trace.scope("inner"):
        x = given(trace)
        with pytest.raises(ShapeError, match=r"test_graph.py:\d+: net/inner/MatMul: x \(2, 3\) and y \(2, 3\)"):
            ops.matmul(x, x)
    assert trace.graph.nodes == []
