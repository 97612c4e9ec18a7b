"""What all problems of a graph have in common: homes of values, what counts how often, what is landed and begun."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.strategies import Strategies
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.parameter import Parameter
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.machine.machine import Machine
from mpiparallel.search.problem.choices import choices_of
from mpiparallel.search.problem.folding import Folding
from mpiparallel.search.problem.likeness import Likeness, likeness
from mpiparallel.search.problem.outline import Outline, outline_of
from mpiparallel.search.problem.task import Task

SPEC = TensorSpec((4, 4), np.dtype(np.float32))


class Layers:
    """Four layers of a weight each, one behind the other, and a node that nothing needs."""

    def __init__(self) -> None:
        self.graph = graph = Graph()
        self.x = value = graph.add_input("x", SPEC)
        self.weights: list[Value] = []
        self.layers: list[Node] = []
        for place in range(4):
            self.weights.append(graph.add_parameter(Parameter(np.ones((4, 4), np.float32), f"w{place}"), SPEC))
            self.layers.append(self.add(value, self.weights[-1]))
            (value,) = self.layers[-1].outputs
        self.spare = self.add(self.x, self.x)
        graph.outputs = [value]

    def add(self, *inputs: Value, **notes: Any) -> Node:
        return self.graph.add_node(ops.Add(), f"layer {len(self.graph.nodes)}", inputs, [SPEC], Notes(**notes))

    @property
    def task(self) -> Task:
        configuration = ParallelConfiguration("semi_auto_parallel", device_num=2)
        return Task(self.graph, configuration, Strategies.of(self.graph), {}, Prices(Machine()))

    def outline(self, folding: Folding | None = None, alike: Likeness | None = None) -> Outline:
        task = self.task
        return outline_of(task, choices_of(task.graph, task.given, 2), alike, folding)


def test_a_value_is_at_home_with_who_makes_it_or_takes_it_first() -> None:
    made = Layers()
    found = made.outline()
    assert found.homes == {
        made.x: made.layers[0],
        **dict(zip(made.weights, made.layers, strict=True)),
        **{layer.outputs[0]: layer for layer in made.layers},
    }
    assert found.nodes == tuple(made.layers)
    assert found.order == {node: place for place, node in enumerate([*made.layers, made.spare])}
    # All count once, and so does what is not known.
    assert {found.weight(value) for value in (*found.homes, made.spare.outputs[0])} == {1}
    # Each weight is one operator's alone.
    assert [group.parameters for group in found.groups] == [*((weight,) for weight in made.weights), ()]


def test_of_folded_layers_what_takes_something_that_counts_is_looked_at_and_counts_for_none() -> None:
    made = Layers()
    second, third, fourth = made.layers[1:]
    found = made.outline(Folding({third: second, fourth: second}, {second: 3}))
    assert [found.weight(one) for one in made.weights] == [1, 3, 0, 0]
    assert [found.weight(layer.outputs[0]) for layer in made.layers] == [1, 3, 0, 0]
    # The third takes what the second makes, which counts; the fourth takes nothing that does.
    assert found.nodes == (made.layers[0], second, third)
    # The node that nothing needs shares no parameter.
    assert [group.chosen for group in found.groups] == [(made.layers[0],), (second,), (made.spare,)]


def test_what_the_gradient_reads_is_kept_but_for_what_is_folded() -> None:
    made = Layers()
    for place, layer in enumerate(made.layers):
        made.graph.outputs += made.add(*layer.outputs, made.x, origin=made.layers[place]).outputs
    outputs = [layer.outputs[0] for layer in made.layers]
    assert set(outputs) <= set(made.outline().kept)
    folded = made.outline(Folding({made.layers[2]: made.layers[1]}, {made.layers[1]: 2}))
    assert outputs[2] not in folded.kept
    assert set(made.outline().kept) - set(folded.kept) == {outputs[2]}


def test_finished_gradients_and_what_is_made_of_them_have_landed() -> None:
    made = Layers()
    first, second, third, fourth = (layer.outputs[0] for layer in made.layers)
    made.graph.gradients = {second: made.weights[0]}
    assert made.outline().landed == {second, third, fourth}
    assert first not in made.outline().landed


def test_what_no_choice_lays_out_is_laid_out_at_once_and_who_is_alike_may_be_known() -> None:
    made = Layers()
    unused = made.graph.add_parameter(Parameter(np.ones((4, 4), np.float32), "unused"), SPEC)
    free = made.outline()
    assert made.x in free.begun.layouts
    assert not free.begun.layouts.keys() & {*made.weights}
    assert free.begun.graph.parameters == {"unused": unused}
    assert free.begun.graph.nodes == []
    task = made.task
    numbers = likeness(task.graph, task.given, task.held)
    assert made.outline(alike=numbers).alike is numbers
    assert free.alike == numbers
    assert free.folding == Folding()
    none = outline_of(task, ())
    assert none.begun.graph.nodes == made.graph.nodes
    assert none.begun.graph.parameters == made.graph.parameters
