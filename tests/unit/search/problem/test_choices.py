"""Which operators are chosen for, and which of them together."""

from __future__ import annotations

from typing import Any

import numpy as np

import mpiparallel as ms
from mpiparallel import Parameter, nn, ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.strategies import Strategies
from mpiparallel.graph.graph import Graph, Node
from mpiparallel.graph.operator import Operator
from mpiparallel.search.problem.choices import choices_of, options_of, share_parameters


class Unruled(Operator):
    """It does not say how it may be cut."""


def node_of(operator: Operator) -> Node:
    value = Graph().add_input("x", TensorSpec((4, 8), np.dtype(np.float32)))
    return Node(operator, "one", (value,))


def test_a_collective_that_is_placed_by_hand_and_what_says_no_rule_have_no_options() -> None:
    assert options_of(node_of(ops.AllReduce()), 2) == ()
    assert options_of(node_of(Unruled()), 2) == ()
    (relu,) = nn.ReLU().sharded_graph(ms.Tensor(np.ones((4, 8), np.float32))).graph.nodes
    assert options_of(relu, 2) == (((1, 1),), ((1, 2),), ((2, 1),))


class Cast(nn.Cell):
    """Products with casts of two weights: the first is used twice, as it is and in 16 bits."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.own = (Parameter(np.ones((8, 8), np.float32), name) for name in ("shared", "own"))
        self.products = [ops.MatMul() for _ in range(3)]

    def construct(self, x: ms.Tensor) -> Any:
        first, second, third = self.products
        half = first(ops.cast(x, ms.float16), ops.cast(self.shared, ms.float16))
        half = second(half, ops.cast(self.own, ms.float16))
        return third(ops.cast(half, ms.float32), self.shared)


def test_operators_that_use_one_parameter_or_a_cast_of_it_are_chosen_for_together_with_the_cast() -> None:
    graph = Cast().sharded_graph(ms.Tensor(np.ones((4, 8), np.float32))).graph
    choices = [one for one in choices_of(graph, Strategies.of(graph), 2) if one.node.operator.name == "MatMul"]
    together, alone = share_parameters(graph, choices)
    assert [value.name for value in together.parameters] == ["shared"]
    assert [value.name for value in alone.parameters] == ["own"]
    assert together.choices == (0, 2)
    assert alone.choices == (1,)
    assert together.chosen == (choices[0].node, choices[2].node)
    # The cast of the weight, and not that of the batch.
    assert [node.operator.name for node in together.nodes] == ["Cast", "MatMul", "MatMul"]
    assert together.nodes[0].inputs == together.parameters
    assert [node.operator.name for node in alone.nodes] == ["Cast", "MatMul"]
