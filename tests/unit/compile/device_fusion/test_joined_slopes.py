"""Slopes of GELU that come with a product, on graphs that are made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.device_fusion.product_fusion import fuse_products
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.parameter import Parameter

SINGLE, HALF = np.dtype(np.float32), np.dtype(np.float16)


class Overwrite(Operator):
    """Changes its first input."""

    updates = (0,)


class Products(Graph):
    """Matrices, and what is made of them node by node."""

    def __init__(self, dtype: Any = SINGLE) -> None:
        super().__init__()
        self.dtype = np.dtype(dtype)
        self.x, self.w, self.y = (self.given(name, 16, 16) for name in "xwy")

    def given(self, name: str, *shape: int, dtype: Any = None) -> Value:
        return self.add_input(name, TensorSpec(shape, np.dtype(dtype or self.dtype)))

    def kept(self, *shape: int, dtype: Any = SINGLE) -> Value:
        parameter = Parameter(np.ones(shape, dtype), f"weight {len(self.parameters)}")
        return self.add_parameter(parameter, TensorSpec(shape, np.dtype(dtype)))

    def add(
        self, operator: Operator, *inputs: Value, shape: tuple[int, ...] = (16, 16), dtype: Any = None, **notes: Any
    ) -> Value:
        spec = TensorSpec(shape, np.dtype(dtype or self.dtype))
        return self.add_node(operator, operator.name, inputs, [spec], Notes(**notes)).outputs[0]

    def product(self, x: Value | None = None, w: Value | None = None, **settings: bool) -> Value:
        return self.add(ops.MatMul(**settings), x or self.x, w or self.w)

    def update(self, operator: Operator, *inputs: Value, **notes: Any) -> Node:
        return self.add_node(operator, operator.name, inputs, [], Notes(**notes))

    def sums(self, value: Value, *dims: int, **notes: Any) -> Value:
        return self.add(ops.ReduceSum().configured(axis=dims or (0,)), value, shape=(16,), **notes)


def names(graph: Graph, *outputs: Value) -> list[str]:
    graph.outputs = [*outputs]
    fuse_products(graph)
    return [node.operator.name for node in graph.nodes]


def slopes(graph: Products, *, turned: bool = False, of_itself: bool = False) -> Value:
    product = graph.product()
    pair = [product, product if of_itself else graph.y]
    return graph.add(ops.GeluGrad(), *(pair[::-1] if turned else pair))


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, ["MatMul+GeluGrad"]),
        # The product stands where GELU is taken the slope of, or in both places.
        ({"turned": True}, ["MatMul", "GeluGrad"]),
        ({"of_itself": True}, ["MatMul", "GeluGrad"]),
    ],
)
def test_a_product_is_multiplied_by_slopes_of_gelu(settings: dict[str, bool], wanted: list[str]) -> None:
    graph = Products()
    found = slopes(graph, **settings)
    assert names(graph, found) == wanted
    if not settings:
        (node,) = graph.nodes
        assert (node.inputs, node.outputs) == ((graph.x, graph.w, graph.y), (found,))


@pytest.mark.parametrize(("columns", "wanted"), [(24, ["MatMul+GeluGrad"]), (12, ["MatMul", "GeluGrad"])])
def test_slopes_are_multiplied_by_in_columns_by_eights(columns: int, wanted: list[str]) -> None:
    graph = Products()
    shape = (16, columns)
    product = graph.add(ops.MatMul(), graph.x, graph.given("wide", *shape), shape=shape)
    assert names(graph, graph.add(ops.GeluGrad(), product, graph.given("at", *shape), shape=shape)) == wanted


def test_slopes_of_another_shape_or_of_a_sum_stay_apart() -> None:
    graph = Products()
    assert names(graph, graph.add(ops.GeluGrad(), graph.product(), graph.given("row", 1, 16))) == ["MatMul", "GeluGrad"]
    graph = Products()
    total = graph.add(ops.Add(), graph.product(), graph.given("bias", 16))
    assert names(graph, graph.add(ops.GeluGrad(), total, graph.y)) == ["MatMul+Add", "GeluGrad"]


def test_what_is_multiplied_by_slopes_is_added_to_apart_and_its_rows_are_summed_with_it() -> None:
    graph = Products()
    found = slopes(graph)
    assert names(graph, graph.add(ops.Add(), found, graph.y)) == ["MatMul+GeluGrad", "Add"]
    graph = Products()
    found = slopes(graph)
    sums = graph.sums(found)
    assert names(graph, found, sums) == ["MatMul+GeluGrad+ReduceSum"]
    (node,) = graph.nodes
    assert node.outputs == (found, sums)
    assert [(value.node, value.index) for value in node.outputs] == [(node, 0), (node, 1)]


def test_the_product_itself_is_kept_where_something_beside_the_slopes_reads_it() -> None:
    graph = Products()
    product = graph.product()
    found = graph.add(ops.GeluGrad(), product, graph.y)
    assert names(graph, found, product) == ["MatMul", "GeluGrad"]
