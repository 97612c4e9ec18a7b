"""Which operators are the gradient of attention, on graphs that are made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.device_fusion.attention_match import Attention, AttentionMatching
from mpiparallel.graph.graph import Graph, Node, Value
from mpiparallel.graph.operator import Operator

FLOAT = np.dtype(np.float32)
# As many queries as numbers of each, so that a wrong product has the shape of a right one.
SPEC = TensorSpec((2, 3, 4, 4), FLOAT)


class Dropout(Operator):
    """Gives what is left, and which that is."""


class DropoutGrad(Operator):
    """Its gradient."""


class SoftmaxGrad(Operator):
    """The gradient of a softmax."""


class Other(Operator):
    """Something else of two inputs."""


class Trained(Graph):
    """Attention and its gradient, one step of which may be another than that."""

    def __init__(self, odd: str = "", scale: float = 0.5, drops: bool = True, casts: bool = False) -> None:
        super().__init__()
        self.odd, self.casts = odd, casts
        self.query, self.key, self.value, self.slope, self.other = (
            self.add_input(name, SPEC) for name in ("query", "key", "value", "slope", "other")
        )
        factor = self.add_constant(np.array(scale, np.float32))
        scores = self.product(self.query, self.key, transpose_b=True)
        scaled = scores if scale == 1.0 else self.add(ops.Mul(), scores, factor)
        self.softmax = self.add(ops.Softmax(), scaled)
        kept = self.add_node(Dropout(), "Dropout", [self.softmax], [SPEC] * 2).outputs if drops else (self.softmax,)
        self.weights = kept[0]
        self.last = self.product(self.weights, self.value)
        self.forward = len(self.nodes)
        of_value = self.product(self.weights, self.slope, transpose_a=True)
        made = self.cast(self.product(self.slope, self.pick("value", self.value), transpose_b=True))
        if drops:
            operator = Other() if odd == "dropout" else DropoutGrad()
            made = self.cast(self.add(operator, made, self.pick("mask", kept[1])))
        operator = Other() if odd == "softmax" else SoftmaxGrad()
        made = self.cast(self.add(operator, self.pick("weights", self.softmax), made))
        if scale != 1.0 or odd == "scaled":
            by = self.add_constant(np.array(0.25, np.float32)) if odd in ("scale", "scaled") else factor
            made = self.cast(self.add(ops.Mul(), made, by))
        pair = [made, self.pick("key", self.key)]
        of_query = self.product(*(pair[::-1] if odd == "turned" else pair), transpose_b=odd == "transposed key")
        of_key = self.product(made, self.pick("query", self.query), transpose_a=odd != "transposed query")
        self.gradients_of = (of_query, of_key, of_value)
        self.outputs = [self.last, *self.gradients_of]
        if odd == "read":
            self.outputs.append(self.add(ops.Sqrt(), made))
        if odd == "returned":
            self.outputs.append(made)

    def pick(self, step: str, value: Value) -> Value:
        return self.other if self.odd == step else value

    def add(self, operator: Operator, *inputs: Value) -> Value:
        return self.add_node(operator, operator.name, inputs, [SPEC]).outputs[0]

    def cast(self, value: Value) -> Value:
        return self.add(ops.Cast(), self.add(ops.Cast(), value)) if self.casts else value

    def product(self, x: Value, y: Value, **settings: bool) -> Value:
        return self.add(ops.BatchMatMul(**settings), x, y)

    def match(self) -> Attention | None:
        readers: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs):
                readers.setdefault(value, []).append(node)
        softmax = next(node for node in self.nodes if node.operator.name == "Softmax")
        return AttentionMatching(self, readers, softmax).match()


@pytest.mark.parametrize("casts", [True, False])
@pytest.mark.parametrize("drops", [True, False])
@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_a_gradient_is_found_with_all_of_its_nodes(scale: float, drops: bool, casts: bool) -> None:
    graph = Trained(scale=scale, drops=drops, casts=casts)
    found = graph.match()
    assert found is not None
    assert found.gradient is not None
    assert (found.scale, found.last) == (scale, graph.nodes[graph.forward - 1])
    assert (found.dropout is None) is not drops
    assert set(found.nodes) == set(graph.nodes[: graph.forward])
    assert (found.gradient.of_output, found.gradient.outputs) == (graph.slope, graph.gradients_of)
    assert set(found.gradient.nodes) == set(graph.nodes[graph.forward :])
    assert len(found.gradient.nodes) == len(graph.nodes) - graph.forward


@pytest.mark.parametrize(
    "odd",
    [
        *("value", "dropout", "mask", "softmax", "weights", "scale", "key", "query"),
        *("turned", "transposed key", "transposed query", "read", "returned"),
    ],
)
def test_a_gradient_one_step_of_which_is_another_is_none_of_attention(odd: str) -> None:
    assert Trained(odd).match() is None


@pytest.mark.parametrize("odd", ["softmax", "weights", "scaled", "key", "query"])
def test_so_it_is_without_a_factor_and_a_dropout(odd: str) -> None:
    assert Trained(odd, scale=1.0, drops=False).match() is None


def test_what_is_dropped_twice_is_none_of_attention() -> None:
    graph: Any = Trained()
    dropout = next(node for node in graph.nodes if node.operator.name == "Dropout")
    second = Node(Dropout(), "Dropout", (graph.weights,), tuple(Value(SPEC, name) for name in ("kept", "which")))
    graph.nodes = [
        *graph.nodes[: graph.nodes.index(dropout) + 1],
        second,
        *graph.nodes[graph.forward - 1 : graph.forward],
    ]
    graph.nodes[-1].inputs = (second.outputs[0], graph.value)
    graph.outputs = [graph.last]
    assert graph.match() is None
