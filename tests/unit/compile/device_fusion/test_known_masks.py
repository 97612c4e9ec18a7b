"""What is known of a mask before anything runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.device_fusion.known_masks import adds_nothing, first_of_causal, known_array, made_of_constants
from mpiparallel.graph.graph import Graph, Notes, Value
from mpiparallel.graph.operator import Operator

SPEC = TensorSpec((2, 2), np.dtype(np.float32))
HIDDEN = -1e9


def causal(queries: int, keys: int, first: int = 0, value: float = HIDDEN) -> np.ndarray:
    return np.triu(np.full((queries, keys), value), first + 1)


def changed(mask: np.ndarray, place: tuple[int, ...], value: float) -> np.ndarray:
    mask = mask.copy()
    mask[place] = value
    return mask


@pytest.mark.parametrize(
    ("mask", "first"),
    [
        (causal(3, 3), 0),
        (causal(3, 5, 2), 2),
        (causal(1, 4, 1), 1),
        # The last queries see all keys.
        (causal(4, 3), 0),
        (causal(3, 3, value=-9000.0), 0),
        (causal(3, 3, value=-8999.0), None),
        (causal(3, 3, value=-np.inf), 0),
        (np.broadcast_to(causal(3, 3), (2, 4, 3, 3)), 0),
        (changed(np.broadcast_to(causal(3, 3), (2, 3, 3)), (1, 2, 0), -1.0), None),
        (changed(causal(3, 3), (1, 0), -1.0), None),
        (changed(causal(3, 3), (1, 2), 0.0), None),
        (np.full((2, 2), HIDDEN), None),
        (np.zeros((2, 2)), None),
        (np.zeros((0, 2)), None),
        (causal(3, 3)[::-1], None),
    ],
)
def test_a_mask_is_causal_where_each_query_sees_one_key_more(mask: np.ndarray, first: int | None) -> None:
    assert first_of_causal(mask) == first


@pytest.mark.parametrize(
    ("added", "nothing"),
    [
        (np.zeros((2, 3)), True),
        (np.zeros((0, 3)), True),
        (changed(np.zeros((2, 3)), (1, 2), 1e-9), False),
        (changed(np.zeros((2, 2, 3)), (0, 0, 0), -1.0), False),
    ],
)
def test_nothing_is_added_where_all_is_zero(added: np.ndarray, nothing: bool) -> None:
    assert adds_nothing(added) is nothing


def add(graph: Graph, operator: Operator, *inputs: Value, **notes: Any) -> Value:
    return graph.add_node(operator, operator.name, inputs, [SPEC], Notes(**notes)).outputs[0]


def test_what_is_made_of_constants_alone_is_known_and_nothing_else() -> None:
    graph = Graph()
    one = graph.add_constant(np.array([[1.0, 2.0], [3.0, 4.0]], np.float32))
    twice = add(graph, ops.Add(), one, one)
    product = add(graph, ops.Mul(), twice, one)
    assert made_of_constants(one) == []
    assert made_of_constants(product) == [twice.node, product.node]
    assert known_array(one) is one.constant
    found = known_array(product)
    assert found is not None
    assert found.tolist() == [[2.0, 8.0], [18.0, 32.0]]
    given = graph.add_input("x", SPEC)
    others = [
        given,
        add(graph, ops.Add(), one, given),
        add(graph, ops.Add(), given, one),
        # It is not of those that masks are made of, or may not run.
        add(graph, ops.Sqrt(), one),
        add(graph, ops.Neg(), one, guards=(one,)),
        add(graph, ops.Neg(), add(graph, ops.Sqrt(), one)),
    ]
    assert [made_of_constants(value) for value in others] == [None] * 6
    assert [known_array(value) for value in others] == [None] * 6


def test_what_is_no_number_is_known_without_a_warning() -> None:
    graph = Graph()
    largest = graph.add_constant(np.full((2, 2), 3e38, np.float32))
    found = known_array(add(graph, ops.Mul(), largest, largest))
    assert found is not None
    assert np.isinf(found).all()
