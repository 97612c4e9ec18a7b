"""Collectives under guards, and those that read each other, on graphs that are made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.schedule_collectives import schedule_collectives
from mpiparallel.graph.graph import Graph, Notes, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.ops import Cos, Exp, Sin
from mpiparallel.parallel.redistribution import redistribute
from mpiparallel.parallel.redistribution_operators import redistributing_operator
from mpiparallel.pipeline.action import Action, Kind

DEVICES, FLOAT = DeviceMatrix((2, 2)), np.dtype(np.float64)
TERMS, OTHER_TERMS, ALL_TERMS = (Layout((4,), DEVICES, ((),), partial=axes) for axes in ((0,), (1,), (0, 1)))
ROWS = Layout((4,), DEVICES, ((0,),))


class Moving(Graph):
    """A graph that redistributes small tensors, with or without guards."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: Any = {}
        self.flag = self.add_parameter(Parameter(np.zeros(()), "flag"), TensorSpec((), FLOAT))
        self.x = self.given()

    def given(self) -> Value:
        return self.add_input("x", TensorSpec((4,), FLOAT))

    def apply(self, operator: Operator, value: Value) -> Value:
        return self.add_node(operator, operator.name, [value], [value.spec]).outputs[0]

    def move(self, value: Value, source: Layout = TERMS, target: Layout | None = None, **notes: Any) -> Value:
        for step in redistribute(source, target or source.reduced()):
            operator = redistributing_operator([step], 0)
            node = self.add_node(operator, operator.name, [value], operator.infer(value.spec), Notes(**notes))
            self.steps[node] = step
            value = node.outputs[0]
        return value

    def guarded(self, value: Value, *layouts: Layout) -> Value:
        return self.move(value, *layouts, guards=(self.flag,))

    def told(self, *outputs: Value) -> list[str]:
        """The operators in the order in which they run; of collectives, how many tensors each carries."""
        self.outputs = [*outputs]
        schedule_collectives(self, self.steps, 0, overlaps=False)
        return [
            f"{node.operator.name} of {len(node.inputs)}" if node.operator.kind == "communication" else node.name
            for node in self.nodes
        ]


def test_under_guards_a_collective_takes_those_along_whose_inputs_are_there() -> None:
    graph = Moving()
    early = graph.apply(Exp(), graph.x)
    used = graph.apply(Sin(), graph.guarded(graph.given()))
    late = graph.apply(Cos(), graph.x)
    others = [graph.guarded(value) for value in (early, graph.given(), late)]
    assert graph.told(used, *others) == ["Exp", "FusedAllReduce of 3", "Sin", "Cos", "AllReduce of 1"]


def test_under_guards_nothing_travels_before_the_first_of_them_is_reached() -> None:
    graph = Moving()
    free, guarded = graph.given(), graph.given()
    used = graph.apply(Exp(), graph.x)
    moved = graph.guarded(guarded)
    assert graph.told(graph.apply(Sin(), graph.move(free)), used, graph.apply(Cos(), moved)) == [
        "Exp",
        "AllReduce of 1",
        "Sin",
        "AllReduce of 1",
        "Cos",
    ]


def test_under_guards_a_collective_of_what_another_gives_runs_after_that() -> None:
    graph = Moving()
    (first, second) = (step.kind for step in redistribute(ALL_TERMS, ROWS))
    assert (first, second) == ("reduce_scatter", "reduce")
    moved = graph.guarded(graph.x, ALL_TERMS, ROWS)
    assert graph.told(graph.apply(Sin(), moved)) == ["ReduceScatterBlocks of 1", "AllReduce of 1", "Sin"]


def test_what_reads_a_collective_that_has_run_waits_for_others_like_it() -> None:
    graph = Moving()
    other = graph.move(graph.given(), OTHER_TERMS)
    scattered = graph.move(graph.x, ALL_TERMS, ROWS)
    assert scattered.node is not None
    used = graph.apply(Sin(), scattered.node.inputs[0])
    # The scattered one is there once the sine needs it, so both sums can leave together at the end.
    assert graph.told(used, other, scattered) == ["ReduceScatterBlocks of 1", "Sin", "FusedAllReduce of 2"]


def test_a_common_message_is_told_by_the_action_of_its_first_tensor() -> None:
    graph = Moving()
    actions = [Action(Kind.FORWARD, number, 0) for number in range(2)]
    moved = [graph.move(graph.given(), action=action) for action in actions]
    graph.told(*moved)
    assert [node.notes.action for node in graph.nodes] == actions[:1]
