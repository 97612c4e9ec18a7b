"""Segments that are computed once more, on a trace of a few nodes."""

from __future__ import annotations

import numpy as np

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.recomputation import Recomputation
from mpiparallel.graph.graph import Node, Notes, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.operator_settings import Segment
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.trace import Trace

SPEC = TensorSpec((3,), np.dtype(np.float32))


class Overwrite(Operator):
    """Changes its first input."""

    updates = (0,)


def add(trace: Trace, *inputs: Value, name: str = "one", segment: Segment | None = None, **notes: object) -> Node:
    return trace.graph.add_node(ops.Add(), name, inputs, [SPEC], Notes(segment=segment, **notes))


def test_the_nodes_of_a_segment_are_computed_once_more_from_what_it_begins_with_when_the_first_is_asked_for() -> None:
    trace, segment = Trace(), Segment(regathers=True)
    x = trace.graph.add_input("x", SPEC)
    before = add(trace, x, x)
    first = add(trace, before.outputs[0], x, name="first", segment=segment, micro_batch=2)
    second = add(trace, first.outputs[0], before.outputs[0], name="second", segment=segment)
    after = add(trace, second.outputs[0], x)
    nodes = [*trace.graph.nodes]
    recomputation = Recomputation(trace)
    assert recomputation.twin(after) is after
    assert trace.graph.nodes == nodes
    twin = recomputation.twin(second)
    assert trace.graph.nodes[:4] == nodes
    again = trace.graph.nodes[4:]
    assert [node.name for node in again] == ["recomputed/first", "recomputed/second"]
    assert twin is again[1]
    assert recomputation.twin(first) is again[0]
    assert trace.graph.nodes[4:] == again
    assert [node.operator for node in again] == [first.operator, second.operator]
    assert again[0].inputs == (before.outputs[0], x)
    assert again[1].inputs == (again[0].outputs[0], before.outputs[0])
    assert again[0].notes.micro_batch == 2
    marks = [node.notes.segment for node in again]
    assert marks[0] is marks[1]
    assert [(one.regathers, one.recomputed) for one in marks if one is not None] == [(True, True)] * 2


def test_what_reads_a_parameter_that_has_been_overwritten_since_is_kept() -> None:
    trace, segment = Trace(), Segment()
    x = trace.graph.add_input("x", SPEC)
    count = trace.graph.add_parameter(Parameter(np.ones(3, np.float32), "count"), SPEC)
    reads = add(trace, x, count, name="reads", segment=segment)
    follows = add(trace, reads.outputs[0], x, name="follows", segment=segment)
    trace.graph.add_node(Overwrite(), "overwrites", [count, x], [])
    recomputation = Recomputation(trace)
    assert recomputation.twin(reads) is reads
    twin = recomputation.twin(follows)
    assert (twin.name, twin.inputs) == ("recomputed/follows", (reads.outputs[0], x))
    assert [node.name for node in trace.graph.nodes[3:]] == ["recomputed/follows"]


def test_segments_are_computed_once_more_one_by_one_and_nothing_of_a_gradient_is() -> None:
    trace, segments = Trace(), [Segment(), Segment()]
    x = trace.graph.add_input("x", SPEC)
    first, second = (add(trace, x, x, name=f"layer {place}", segment=one) for place, one in enumerate(segments))
    add(trace, x, x, name="gradient", segment=segments[1], origin=first)
    recomputation = Recomputation(trace)
    recomputation.twin(second)
    assert [node.name for node in trace.graph.nodes[3:]] == ["recomputed/layer 1"]
    recomputation.twin(first)
    assert [node.name for node in trace.graph.nodes[3:]] == ["recomputed/layer 1", "recomputed/layer 0"]
