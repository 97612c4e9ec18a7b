"""Which computation of which micro-batch in which part a node is, on graphs that are made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.staging.homes import find_homes
from mpiparallel.compile.staging.work import Work, micro_batches, stages_in_order, works_of
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.operator_settings import Segment
from mpiparallel.graph.parameter import Parameter
from mpiparallel.pipeline.action import Kind
from mpiparallel.pipeline.placement import Placement

SPEC = TensorSpec((2, 2), np.dtype(np.float32))
AGAIN = Segment(recomputed=True)
FORWARD, INPUT, WEIGHT = Kind.FORWARD, Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT


class Update(Operator):
    """Changes its first input."""

    updates = (0,)


class Everywhere(Operator):
    """All ranks meet in it."""

    meets_all = True


class Made(Graph):
    """A graph that is told node by node."""

    def __init__(self) -> None:
        super().__init__()
        self.x = self.add_input("x", SPEC)

    def add(self, *inputs: Value, operator: Operator | None = None, name: str = "one", **notes: Any) -> Node:
        return self.add_node(operator or ops.Add(), name, inputs, [SPEC], Notes(**notes))

    def weight(self, name: str) -> Value:
        return self.add_parameter(Parameter(np.ones((2, 2), np.float32), name), SPEC)


def out(node: Node) -> Value:
    return node.outputs[0]


def works(graph: Graph, nodes: Sequence[Node], *stages: int) -> list[tuple[Kind, int, int] | None]:
    found = works_of(graph, Placement(stages))
    return [tuple(found[node]) if node in found else None for node in nodes]


def test_a_network_passes_its_stages_in_the_order_of_its_first_micro_batch() -> None:
    graph = Made()
    for stage, micro_batch in ((0, 0), (0, 0), (1, 0), (None, 0), (1, 0), (0, 0), (2, 1), (3, None)):
        graph.add(graph.x, stage=stage, micro_batch=micro_batch)
    graph.add(graph.x, stage=4, micro_batch=0, origin=graph.nodes[0])
    graph.add(graph.x, stage=5, micro_batch=0, like=graph.x)
    graph.add(graph.x, stage=6, micro_batch=0, segment=AGAIN)
    graph.add(graph.x, stage=7, micro_batch=0, segment=Segment())
    assert stages_in_order(graph) == [0, 1, 0, 3, 7]


def test_micro_batches_are_counted_and_a_training_on_a_whole_batch_is_refused() -> None:
    graph = Made()
    graph.add(graph.x)
    assert micro_batches(graph) == 1
    graph.cotangents = {graph.nodes[0]: ()}
    with pytest.raises(ConfigurationError) as raised:
        micro_batches(graph)
    assert str(raised.value) == (
        "pipeline_stages: the network takes the batch as a whole; wrap it as nn.PipelineCell(network, micro_size), so "
        "that stages can work on pieces of it at the same time"
    )
    for number in (2, 0, 2):
        graph.add(graph.x, micro_batch=number)
    assert micro_batches(graph) == 2


def test_a_node_is_where_its_cell_is_or_its_last_input_and_gradients_where_their_origin_is() -> None:
    graph = Made()
    number = {"micro_batch": 3}
    alone = graph.add(graph.x, **number)
    first = graph.add(graph.x, stage=0, **number)
    between = graph.add(out(first), out(alone), **number)
    second = graph.add(out(between), stage=1, **number)
    last = graph.add(out(second), out(first), **number)
    twin = graph.add(out(first), stage=0, segment=AGAIN, **number)
    cotangent = graph.add(out(last), origin=second, **number)
    gradient = graph.add(out(cotangent), origin=first, **number)
    whole = graph.add(out(last))
    nodes = [alone, first, between, second, last, twin, cotangent, gradient, whole]
    assert works(graph, nodes, 0, 1) == [
        None,
        (FORWARD, 3, 0),
        (FORWARD, 3, 0),
        (FORWARD, 3, 1),
        (FORWARD, 3, 1),
        (WEIGHT, 3, 0),
        # The first part waits for it.
        (INPUT, 3, 1),
        (WEIGHT, 3, 0),
        # Of all micro-batches together.
        None,
    ]


def test_a_network_on_a_whole_batch_has_one_micro_batch() -> None:
    graph = Made()
    first = graph.add(graph.x, stage=0)
    gradient = graph.add(out(first), origin=first)
    assert works(graph, [first, gradient], 0) == [(FORWARD, 0, 0), None]


def test_gradients_of_a_weight_are_added_where_all_of_them_are_and_of_the_latest_micro_batch() -> None:
    graph = Made()
    weight = graph.weight("w")
    firsts = [graph.add(graph.x, weight, stage=0, micro_batch=number) for number in range(2)]
    terms = [graph.add(out(node), origin=node, micro_batch=number) for number, node in enumerate(firsts)]
    total = graph.add(*map(out, terms), like=weight)
    mixed = graph.add(out(total), graph.x, like=weight)
    assert works(graph, [*terms, total, mixed], 0) == [(WEIGHT, 0, 0), (WEIGHT, 1, 0), (WEIGHT, 1, 0), None]


@pytest.mark.parametrize("reads", [True, False])
def test_gradients_of_a_value_are_added_in_the_first_part_if_that_reads_them_anyway(reads: bool) -> None:
    graph = Made()
    number = {"micro_batch": 0}
    value = graph.add(graph.x, stage=0, **number)
    near, far = graph.add(out(value), stage=0, **number), graph.add(out(value), stage=1, **number)
    of_far, of_near = (graph.add(out(node), origin=node, **number) for node in (far, near))
    if reads:
        graph.add(out(of_far), out(near), origin=near, **number)
    total = graph.add(out(of_near), out(of_far), like=out(value), **number)
    found = works_of(graph, Placement((0, 1)))[total]
    assert found.part == 0
    assert (found.kind, found.micro_batch) == (WEIGHT, 0)


def test_a_stage_that_stands_twice_in_a_row_has_half_of_its_computing_in_each_part() -> None:
    graph = Made()
    number, weight = {"micro_batch": 0}, graph.weight("w")
    nodes = [graph.add(graph.x, weight, stage=0, name="begin", **number)]
    for place in range(4):
        nodes.append(graph.add(out(nodes[-1]), weight, stage=1, name=f"layer {place}", **number))
    nodes.append(graph.add(out(nodes[-1]), stage=0, name="end", **number))
    nodes.append(graph.add(out(nodes[2]), stage=1, name="recomputed/layer 2", segment=AGAIN, **number))
    # Each of the four has as many operations: the third is the first that ends behind the middle.
    assert [one and one[2] for one in works(graph, nodes, 0, 1, 1, 0)] == [0, 1, 1, 2, 2, 3, 2]


def test_what_depends_on_inputs_alone_is_in_the_part_that_wants_it_first() -> None:
    graph = Made()
    number = {"micro_batch": 0}
    mask = graph.add(graph.x, stage=0, name="mask", **number)
    weighed = graph.add(graph.x, graph.weight("w"), stage=0, name="weighed", **number)
    turn = graph.add(out(weighed), stage=1, name="turn", **number)
    back = graph.add(out(turn), out(mask), out(weighed), stage=0, name="back", **number)
    assert [one and one[2] for one in works(graph, [mask, weighed, turn, back], 0, 1, 0)] == [2, 0, 1, 2]
    # Where no stage comes twice, there is nothing to bring forward.
    graph.nodes.remove(back)
    assert [one and one[2] for one in works(graph, [mask, weighed, turn], 0, 1)] == [0, 0, 1]


def test_a_stage_that_is_used_before_one_that_comes_earlier_is_refused_with_the_value_that_it_takes() -> None:
    graph = Made()
    later = graph.add(graph.x, stage=1, name="later", micro_batch=0)
    graph.add(graph.x, out(later), stage=0, name="earlier", micro_batch=0)
    with pytest.raises(ConfigurationError) as raised:
        works_of(graph, Placement((0, 1)))
    assert str(raised.value) == (
        "earlier: it is in pipeline_stage 0, but takes later:0 of stage 1, which comes later; number the stages in the "
        'order in which the network runs, or ask for pipeline_config={"pipeline_scheduler": "1f1b", '
        '"pipeline_interleave": True} to pass them several times'
    )
    assert works(graph, graph.nodes, 0, 1, 0)[1] == (FORWARD, 0, 2)


def test_a_trained_parameter_that_is_used_in_no_stage_is_refused_by_name() -> None:
    graph = Made()
    trained, frozen = graph.weight("trained"), graph.weight("frozen")
    graph.gradients = {graph.x: trained}
    assert works(graph, [graph.add(graph.x, frozen, name="frozen", micro_batch=0)], 0) == [None]
    graph.add(graph.x, trained, name="lost", micro_batch=0)
    with pytest.raises(ConfigurationError) as raised:
        works_of(graph, Placement((0,)))
    assert str(raised.value) == (
        "lost: it uses the trained parameter 'trained', but is in no stage of the pipeline; set pipeline_stage of its "
        "cell"
    )


def test_other_nodes_are_where_the_parameters_are_that_they_read_or_anywhere() -> None:
    graph = Made()
    here, there, moment = graph.weight("here"), graph.weight("there"), graph.weight("moment")
    counter, kept = graph.weight("counter"), graph.weight("kept")
    first, second = graph.add(graph.x, here, stage=0), graph.add(graph.x, there, stage=1)
    found = {first: Work(FORWARD, 0, 0), second: Work(FORWARD, 0, 1)}
    read, made = graph.add(there, graph.x), graph.add(out(first), graph.x)
    both, free = graph.add(out(first), out(second)), graph.add(graph.x, graph.x)
    met = graph.add(out(first), operator=Everywhere())
    counted = graph.add(counter, graph.x, operator=Update())
    updated = graph.add(there, moment, operator=Update())
    follows = graph.add(moment, out(second), operator=Update())
    graph.gradients = {kept: here}
    of_kept = graph.add(kept, out(second))
    guarded = graph.add(graph.weight("flag"), out(first), operator=Update())
    graph.add(graph.x, guards=(guarded.inputs[0],))
    homes = find_homes(graph, found, Placement((0, 1)))
    wanted = {
        first: {0},
        second: {1},
        read: {1},
        made: {0},
        both: {0, 1},
        free: {0, 1},
        met: {0, 1},
        counted: {0, 1},
        updated: {1},
        follows: {1},
        of_kept: {0},
        guarded: {0, 1},
    }
    assert {node: set(homes[node]) for node in wanted} == wanted


def test_a_node_that_reads_parameters_of_two_stages_is_refused_with_both() -> None:
    graph = Made()
    here, there = graph.weight("here"), graph.weight("there")
    first, second = graph.add(graph.x, here), graph.add(graph.x, there)
    graph.add(here, there, name="both")
    with pytest.raises(ConfigurationError) as raised:
        find_homes(graph, {first: Work(FORWARD, 0, 0), second: Work(FORWARD, 0, 1)}, Placement((0, 1)))
    assert str(raised.value) == (
        "both: it reads the parameters 'here' of stage 0, 'there' of stage 1, which no stage of the pipeline has "
        "together; compute of each what is needed first, and put the results together"
    )
