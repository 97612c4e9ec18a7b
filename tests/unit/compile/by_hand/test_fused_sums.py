"""Which sums and which terms of them are computed in one pass, on graphs that are made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.elementwise_fusion import fuse_elementwise
from mpiparallel.graph.graph import Graph, Notes, Value
from mpiparallel.graph.operator import Operator


def spec(*shape: int) -> TensorSpec:
    return TensorSpec(shape, np.dtype(np.float32))


def add(graph: Graph, operator: Operator, *inputs: Value, of: TensorSpec | None = None, **notes: Any) -> Value:
    node = graph.add_node(operator, operator.name, inputs, [of or inputs[0].spec], Notes(**notes))
    return node.outputs[0]


def names(graph: Graph, **settings: Any) -> list[str]:
    fuse_elementwise(graph, **settings)
    return [node.operator.name for node in graph.nodes]


@pytest.mark.parametrize(
    ("of_first", "of_second", "of_sum", "wanted"),
    [
        (0, 0, 0, ["ReLU+Sqrt+Add"]),
        (None, 0, 0, ["ReLU+Sqrt+Add"]),
        (0, 1, 1, ["ReLU", "Sqrt+Add"]),
        (0, 1, 0, ["Sqrt", "ReLU+Add"]),
        (0, 1, None, ["Sqrt", "ReLU+Add"]),
    ],
)
def test_a_sum_is_computed_with_the_first_terms_of_one_micro_batch(
    of_first: int | None, of_second: int | None, of_sum: int | None, wanted: list[str]
) -> None:
    graph = Graph()
    x = graph.add_input("x", spec(4))
    terms = [
        add(graph, operator, x, micro_batch=number)
        for operator, number in ((ops.ReLU(), of_first), (ops.Sqrt(), of_second))
    ]
    graph.outputs = [add(graph, ops.Add(), *terms, micro_batch=of_sum)]
    assert names(graph, smallest=1) == wanted


def test_inputs_in_any_place_are_computed_with_what_reads_them() -> None:
    graph = Graph()
    x, y = (graph.add_input(name, spec(4)) for name in "xy")
    graph.outputs = [add(graph, ops.Sub(), y, add(graph, ops.ReLU(), x))]
    assert names(graph, smallest=1) == ["ReLU+Sub"]


@pytest.mark.parametrize(
    ("dims", "is_one"),
    [((2,), True), ((1, 2), True), ((0, 1, 2), True), ((0, 2), False), ((0, 1), False), ((1,), False)],
)
def test_only_sums_over_the_last_dims_are_computed_with_what_is_made_of_them(
    dims: tuple[int, ...], is_one: bool
) -> None:
    graph = Graph()
    root = add(graph, ops.Sqrt(), graph.add_input("x", spec(2, 3, 4)))
    shape = spec(*(1 if place in dims else extent for place, extent in enumerate((2, 3, 4))))
    total = add(graph, ops.ReduceSum(keep_dims=True).configured(axis=dims), root, of=shape)
    graph.outputs = [add(graph, ops.Sub(), root, total)]
    assert names(graph, smallest=1) == (["Sqrt+ReduceSum+Sub"] if is_one else ["Sqrt+ReduceSum", "Sub"])


def test_whole_outputs_come_first_and_only_whole_inputs_are_reused() -> None:
    graph = Graph()
    x, row = graph.add_input("x", spec(4, 8)), graph.add_input("row", spec(8))
    total = add(graph, ops.ReduceSum(keep_dims=True).configured(axis=(1,)), x, of=spec(4, 1))
    centred = add(graph, ops.Sub(), x, total)
    moved = add(graph, ops.Add(), centred, row)
    graph.outputs = [total, moved]
    fuse_elementwise(graph, 1)
    (node,) = graph.nodes
    assert (node.inputs, node.outputs) == ((x, row), (moved, total))
    assert node.operator.reuses == (0,)
