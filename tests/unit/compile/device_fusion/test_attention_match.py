"""Which operators around a softmax are attention, on graphs that are made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.device_fusion.attention_match import Attention, AttentionMatching
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator

FLOAT = np.dtype(np.float32)
SHAPE, SCORES = (2, 3, 5, 4), (2, 3, 5, 5)


class Attending(Graph):
    """Queries, keys and values, and what is made of them step by step."""

    def __init__(self, shape: tuple[int, ...] = SHAPE, value_shape: tuple[int, ...] = SHAPE) -> None:
        super().__init__()
        self.query, self.key = (self.add_input(name, TensorSpec(shape, FLOAT)) for name in ("query", "key"))
        self.value = self.add_input("value", TensorSpec(value_shape, FLOAT))
        self.shape = (*shape[:-1], shape[-2])

    def add(self, operator: Operator, *inputs: Value, shape: tuple[int, ...] | None = None, **notes: Any) -> Value:
        spec = TensorSpec(self.shape if shape is None else shape, FLOAT)
        return self.add_node(operator, operator.name, inputs, [spec], Notes(**notes)).outputs[0]

    def number(self, number: float) -> Value:
        return self.add_constant(np.array(number, np.float32))

    def product(self) -> Value:
        return self.add(ops.BatchMatMul(transpose_b=True), self.query, self.key)

    def weighed(self, scores: Value, **settings: Any) -> Value:
        weights = self.add(ops.Softmax(**settings), scores)
        self.outputs = [self.add(ops.BatchMatMul(), weights, self.value, shape=self.query.spec.shape)]
        return weights

    def match(self) -> Attention | None:
        readers: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs):
                readers.setdefault(value, []).append(node)
        softmax = next(node for node in self.nodes if node.operator.name == "Softmax")
        return AttentionMatching(self, readers, softmax).match()


def matched(make: Callable[[Attending, Value], Value]) -> tuple[Attending, Attention | None]:
    graph = Attending()
    graph.weighed(make(graph, graph.product()))
    return graph, graph.match()


@pytest.mark.parametrize(
    ("make", "scale"),
    [
        (lambda graph, scores: scores, 1.0),
        (lambda graph, scores: graph.add(ops.Mul(), scores, graph.number(0.5)), 0.5),
        (lambda graph, scores: graph.add(ops.Mul(), graph.number(0.5), scores), 0.5),
        (lambda graph, scores: graph.add(ops.Div(), scores, graph.number(4.0)), 0.25),
        (lambda graph, scores: graph.add(ops.RealDiv(), scores, graph.number(4.0)), 0.25),
        (lambda graph, scores: graph.add(ops.Mul(), graph.add(ops.Cast(), scores), graph.number(0.5)), 0.5),
        (lambda graph, scores: graph.add(ops.Cast(), graph.add(ops.Mul(), scores, graph.number(0.5))), 0.5),
        # These are no scores of attention.
        (lambda graph, scores: graph.add(ops.Div(), graph.number(4.0), scores), None),
        (lambda graph, scores: graph.add(ops.Mul(), scores, graph.number(0.0)), None),
        (lambda graph, scores: graph.add(ops.Mul(), scores, scores), None),
        (lambda graph, scores: graph.add(ops.Mul(), scores, graph.add_input("factor", TensorSpec((), FLOAT))), None),
        (
            lambda graph, scores: graph.add(ops.Mul(), scores, graph.add_constant(np.full((5, 5), 0.5, np.float32))),
            None,
        ),
        (lambda graph, scores: graph.add(ops.Sqrt(), scores), None),
        (lambda graph, scores: graph.add(ops.Sub(), scores, graph.number(1.0)), None),
    ],
)
def test_scores_are_a_product_by_one_known_number(
    make: Callable[[Attending, Value], Value], scale: float | None
) -> None:
    graph, found = matched(make)
    if scale is None:
        assert found is None
        return
    assert found is not None
    assert (found.scale, found.mask, found.first_query, found.constants) == (scale, None, None, ())
    assert (found.query, found.key, found.value) == (graph.query, graph.key, graph.value)
    assert (found.nodes, found.last) == (tuple(graph.nodes), graph.nodes[-1])
    assert (found.dropout, found.gradient) == (None, None)


HIDDEN = np.triu(np.full((5, 5), -1e9, np.float32), 1)
SOME = np.arange(25, dtype=np.float32).reshape(5, 5)


@pytest.mark.parametrize(
    ("array", "first", "mask"),
    [
        (np.zeros((5, 5), np.float32), None, None),
        (HIDDEN, 0, None),
        (np.broadcast_to(HIDDEN, (2, 1, 5, 5)), 0, None),
        (SOME, None, (1, 1, 5, 5)),
        (np.broadcast_to(SOME, (3, 5, 5)), None, (1, 3, 5, 5)),
        (np.broadcast_to(SOME, (2, 3, 5, 5)), None, (2, 3, 5, 5)),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_constant_that_is_added_is_read_unless_it_adds_nothing_or_hides_what_comes_later(
    array: np.ndarray, first: int | None, mask: tuple[int, ...] | None, is_first: bool
) -> None:
    def make(graph: Attending, scores: Value) -> Value:
        pair = [scores, graph.add_constant(array)]
        return graph.add(ops.Add(), *(pair if is_first else pair[::-1]))

    _, found = matched(make)
    assert found is not None
    assert (found.first_query, found.mask and found.mask.spec.shape) == (first, mask)


@pytest.mark.parametrize(
    ("shape", "is_found"),
    [
        ((2, 3, 5, 5), True),
        ((2, 1, 5, 5), True),
        ((1, 1, 5, 5), True),
        # What is only known when it runs is read with all its dims, over all queries and keys.
        ((5, 5), False),
        ((1, 1, 1, 5), False),
        ((3, 3, 5, 5), False),
    ],
)
def test_a_mask_that_is_given_is_read_with_all_its_dims(shape: tuple[int, ...], is_found: bool) -> None:
    graph, found = matched(
        lambda graph, scores: graph.add(ops.Add(), scores, graph.add_input("mask", TensorSpec(shape, FLOAT)))
    )
    assert (found is not None) is is_found
    if found is not None:
        assert (found.mask, found.first_query) == (graph.inputs[-1], None)


def test_what_is_computed_of_constants_is_known_with_the_nodes_that_do() -> None:
    _, found = matched(
        lambda graph, scores: graph.add(
            ops.Add(), scores, graph.add(ops.Neg(), graph.add_constant(-HIDDEN), shape=(5, 5))
        )
    )
    assert found is not None
    assert found.first_query == 0
    assert [node.operator.name for node in found.constants] == ["Neg"]


@pytest.mark.parametrize(("settings", "is_found"), [({}, True), ({"axis": 3}, True), ({"axis": 1}, False)])
def test_a_softmax_is_over_the_keys(settings: dict[str, int], is_found: bool) -> None:
    graph = Attending()
    graph.weighed(graph.product(), **settings)
    assert (graph.match() is not None) is is_found


def test_tensors_have_four_dims_and_values_those_of_the_weights() -> None:
    for shapes in (((6, 5, 4), (6, 5, 4)), (SHAPE, (1, 3, 5, 4))):
        graph = Attending(*shapes)
        graph.weighed(graph.product())
        assert graph.match() is None


def read_weights(graph: Attending, scores: Value, weights: Value) -> None:
    graph.outputs.append(graph.add(ops.ReLU(), weights))


def return_scores(graph: Attending, scores: Value, weights: Value) -> None:
    graph.outputs.append(scores)


def guard_weights(graph: Attending, scores: Value, weights: Value) -> None:
    weights.node.notes = Notes(guards=(graph.query,))


def other_micro_batch(graph: Attending, scores: Value, weights: Value) -> None:
    weights.node.notes = Notes(micro_batch=1)


def wide_values(graph: Attending, scores: Value, weights: Value) -> None:
    graph.value.spec = TensorSpec(SHAPE, np.dtype(np.float64))


def turned_keys(graph: Attending, scores: Value, weights: Value) -> None:
    scores.node.operator = ops.BatchMatMul(transpose_a=True, transpose_b=True)


def turned_weights(graph: Attending, scores: Value, weights: Value) -> None:
    graph.nodes[-1].operator = ops.BatchMatMul(transpose_a=True)


@pytest.mark.parametrize(
    "change",
    [read_weights, return_scores, guard_weights, other_micro_batch, wide_values, turned_keys, turned_weights],
)
def test_what_something_else_needs_or_what_is_otherwise_is_computed_as_it_is(change: Callable[..., None]) -> None:
    graph = Attending()
    scores = graph.product()
    weights = graph.weighed(scores)
    assert graph.match() is not None
    change(graph, scores, weights)
    assert graph.match() is None
