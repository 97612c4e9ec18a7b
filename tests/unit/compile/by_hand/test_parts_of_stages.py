"""In which part of a stage a node is, where a network comes back to it, on graphs that are made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.staging.homes import find_homes
from mpiparallel.compile.staging.work import Work, works_of
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.operator_settings import Segment
from mpiparallel.graph.parameter import Parameter
from mpiparallel.pipeline.action import Kind
from mpiparallel.pipeline.placement import Placement

SPEC = TensorSpec((2, 2), np.dtype(np.float32))
AGAIN = Segment(recomputed=True)


class Update(Operator):
    """Changes its first input."""

    updates = (0,)


class Made(Graph):
    """A graph of one micro-batch that is told node by node."""

    def __init__(self) -> None:
        super().__init__()
        self.x = self.add_input("x", SPEC)
        self.weight = self.kept("weight")

    def kept(self, name: str) -> Value:
        return self.add_parameter(Parameter(np.ones((2, 2), np.float32), name), SPEC)

    def add(self, *inputs: Value, operator: Operator | None = None, name: str = "one", **notes: Any) -> Node:
        return self.add_node(operator or ops.Add(), name, inputs, [SPEC], Notes(**{"micro_batch": 0, **notes}))


def out(node: Node) -> Value:
    return node.outputs[0]


def parts(graph: Graph, nodes: Sequence[Node], *stages: int) -> list[int | None]:
    found = works_of(graph, Placement(stages))
    return [found[node].part if node in found else None for node in nodes]


@pytest.mark.parametrize("reads", [True, False])
def test_gradients_of_a_value_are_added_where_the_first_term_is_or_else_where_the_value_is(reads: bool) -> None:
    graph = Made()
    value = graph.add(graph.x, graph.weight, stage=0)
    near, far = graph.add(out(value), stage=1), graph.add(out(value), stage=2)
    of_far, of_near = (graph.add(out(node), origin=node) for node in (far, near))
    if reads:
        graph.add(out(of_far), out(near), origin=near)
    total = graph.add(out(of_near), out(of_far), like=out(value))
    assert parts(graph, [of_near, of_far, total], 0, 1, 2) == [1, 2, 1 if reads else 0]


def test_gradients_of_a_weight_that_two_parts_use_are_added_at_the_end() -> None:
    graph = Made()
    near, far = (graph.add(graph.x, graph.weight, stage=stage) for stage in (0, 1))
    terms = [graph.add(out(node), origin=node) for node in (near, far)]
    graph.add(out(terms[1]), out(near), origin=near)
    total = graph.add(*map(out, terms), like=graph.weight)
    assert parts(graph, [*terms, total], 0, 1) == [0, 1, None]


def test_what_is_read_in_two_parts_of_a_stage_is_in_the_first_and_what_is_computed_again_in_the_last() -> None:
    graph = Made()
    mask = graph.add(graph.x, stage=0, name="mask")
    begin = graph.add(out(mask), graph.weight, stage=0, name="begin")
    turn = graph.add(out(begin), stage=1, name="turn")
    back = graph.add(out(turn), out(mask), stage=0, name="back")
    twin = graph.add(graph.x, stage=0, name="recomputed/mask", segment=AGAIN)
    graph.add(out(back), out(twin), origin=back)
    graph.add(out(turn), out(twin), origin=begin)
    # What has no work, such as an update, changes nothing.
    graph.add_node(Update(), "update", [graph.weight, graph.x], [])
    assert parts(graph, [mask, begin, turn, back, twin], 0, 1, 0) == [0, 0, 1, 2, 2]


def test_a_mask_for_another_stage_stays_in_its_own() -> None:
    graph = Made()
    mask, late = graph.add(graph.x, stage=0, name="mask"), graph.add(graph.x, stage=0, name="late")
    begin = graph.add(graph.x, graph.weight, stage=0, name="begin")
    turn = graph.add(out(begin), out(mask), stage=1, name="turn")
    graph.add(out(turn), out(late), stage=0, name="back")
    graph.add_node(Update(), "update", [graph.weight, graph.x], [])
    assert parts(graph, [mask, late], 0, 1, 0) == [0, 2]


@pytest.mark.parametrize("beside", ["nothing", "gradients", "what is computed again"])
def test_half_of_what_the_network_computes_is_in_each_part_of_the_stage_where_it_turns(beside: str) -> None:
    graph = Made()
    nodes = [graph.add(graph.x, graph.weight, stage=0, name="begin")]
    for place in range(4):
        nodes.append(graph.add(out(nodes[-1]), graph.weight, stage=1, name=f"layer {place}"))
    for place, node in enumerate(nodes[1:]):
        if beside == "gradients":
            graph.add(out(node), stage=1, name=f"gradient {place}", origin=node)
        elif beside == "what is computed again":
            graph.add(*node.inputs, stage=1, name=f"recomputed/other {place}", segment=AGAIN)
    assert parts(graph, nodes, 0, 1, 1, 0) == [0, 1, 1, 2, 2]


def test_the_last_of_three_stages_turns_from_its_own_first_part_to_the_next() -> None:
    graph = Made()
    nodes: list[Node] = []
    for place, stage in enumerate((0, 1, 2, 2, 1, 0)):
        given = out(nodes[-1]) if nodes else graph.x
        nodes.append(graph.add(given, graph.weight, stage=stage, name=f"layer {place}"))
    assert parts(graph, nodes, 0, 1, 2, 2, 1, 0) == [0, 1, 2, 3, 4, 5]


def test_what_depends_on_two_of_three_stages_can_run_in_all() -> None:
    graph = Made()
    firsts = [graph.add(graph.x, graph.kept(f"weight {stage}"), stage=stage) for stage in range(3)]
    both = graph.add(out(firsts[0]), out(firsts[1]))
    counted = graph.add(graph.kept("counter"), out(both), operator=Update())
    works = {node: Work(Kind.FORWARD, 0, part) for part, node in enumerate(firsts)}
    homes = find_homes(graph, works, Placement((0, 1, 2)))
    assert homes[both] == homes[counted] == {0, 1, 2}
