"""Where a gradient is made that has dims of its own: as the next node takes it, on graphs that are made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.place import place
from mpiparallel.compile.strategies import Strategies
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.parameter import Parameter
from mpiparallel.parallel.configuration import ParallelConfiguration

ROW, MATRIX = (TensorSpec(shape, np.dtype(np.float32)) for shape in ((8,), (8, 8)))
WHOLE, ROWS, COLUMNS = (1, 1), (4, 1), (1, 4)
BY_ROWS, BY_COLUMNS = ((4, 1), (1, 1)), ((1, 1), (1, 4))


class Spread(Operator):
    """Makes a matrix of a row; its own dims may be cut as anybody likes."""

    def equation(self, *inputs: TensorSpec) -> Equation:
        return Equation.parse("k->ij")


class Kept(Operator):
    """Takes its input wherever it is."""

    keeps_layouts = True


class Made(Graph):
    """A product by a weight, and a gradient that is spread over a matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.row = self.add_input("x", MATRIX), self.add_input("row", ROW)
        self.weight = self.add_parameter(Parameter(np.ones((8, 8), np.float32), "weight"), MATRIX)
        self.product = self.add(ops.MatMul(), self.x, self.weight)
        self.last = self.add(ops.ReLU(), self.product.outputs[0])
        self.spread = self.add(Spread(), self.row, origin=self.last)
        self.made = self.spread.outputs[0]

    def add(self, operator: Operator, *inputs: Value, **notes: Any) -> Node:
        return self.add_node(operator, operator.name, inputs, [MATRIX], Notes(**notes))


def nobody(graph: Made) -> None:
    """It is taken by nothing."""


def is_returned(graph: Made) -> None:
    taken_as_cotangent(graph)
    graph.outputs = [graph.made]


def is_of_weight(graph: Made) -> None:
    graph.gradients = {graph.made: graph.weight}


def is_added_like_the_weight(graph: Made) -> None:
    graph.add(ops.Add(), graph.made, graph.made, like=graph.weight)


def is_kept(graph: Made) -> None:
    graph.add(Kept(), graph.made, origin=graph.product)


def taken_as_cotangent(graph: Made) -> None:
    graph.cotangents = {graph.product: (graph.made,)}
    graph.add(ops.MatMul(transpose_b=True), graph.made, graph.weight, origin=graph.product)


def taken_with_what_is_placed(graph: Made) -> None:
    graph.add(ops.Mul(), graph.product.outputs[0], graph.made, origin=graph.last)


def taken_for_the_weight(graph: Made) -> None:
    taken = graph.add(ops.ReLU(), graph.made, origin=graph.product)
    graph.gradients = {taken.outputs[0]: graph.weight}


def taken_with_what_is_not_placed(graph: Made) -> None:
    late = graph.add(Spread(), graph.row, origin=graph.last)
    graph.nodes.remove(late)
    taken = graph.add(ops.Mul(), late.outputs[0], graph.made, origin=graph.product)
    graph.nodes.insert(graph.nodes.index(taken), late)
    graph.gradients = {taken.outputs[0]: graph.weight}


def taken_for_nothing(graph: Made) -> None:
    graph.add(ops.ReLU(), graph.made, origin=graph.product)


@pytest.mark.parametrize(
    ("body", "strategy", "wanted"),
    [
        (nobody, BY_COLUMNS, WHOLE),
        (is_returned, BY_COLUMNS, WHOLE),
        (is_of_weight, BY_COLUMNS, COLUMNS),
        (is_of_weight, ((1, 4), (4, 1)), ROWS),
        (is_added_like_the_weight, BY_COLUMNS, COLUMNS),
        (is_kept, BY_COLUMNS, WHOLE),
        (taken_as_cotangent, BY_COLUMNS, COLUMNS),
        (taken_as_cotangent, BY_ROWS, ROWS),
        # The last operator has no strategy, so it is cut by rows.
        (taken_with_what_is_placed, BY_COLUMNS, ROWS),
        (taken_for_the_weight, BY_COLUMNS, COLUMNS),
        (taken_with_what_is_not_placed, BY_COLUMNS, COLUMNS),
        (taken_for_nothing, BY_COLUMNS, WHOLE),
    ],
)
def test_a_gradient_with_dims_of_its_own_is_made_as_it_is_taken(
    body: Callable[[Made], None], strategy: Any, wanted: tuple[int, ...]
) -> None:
    graph = Made()
    body(graph)
    configuration = ParallelConfiguration("semi_auto_parallel", device_num=4)
    sharded = place(graph, configuration, Strategies({graph.product: strategy}), {})
    (layout,) = sharded.placements[graph.spread].outputs
    assert (layout.cuts, layout.partial) == (wanted, ())
