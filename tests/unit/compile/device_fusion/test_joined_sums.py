"""Sums of rows and sums over steps that come with a product, on graphs that are made by hand."""

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
from mpiparallel.ops.gradients.gradient_sum import AddTerms
from mpiparallel.pipeline.action import Action, Kind

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


@pytest.mark.parametrize("operator", [ops.AssignAdd, AddTerms])
def test_a_product_is_added_to_what_is_summed_over_steps_where_that_lies(operator: type[Operator]) -> None:
    graph = Products()
    total, product = graph.kept(16, 16), graph.product()
    graph.update(operator(), total, product)
    assert names(graph) == [f"MatMul+{operator.__name__}"]
    (node,) = graph.nodes
    assert (node.inputs, node.outputs) == ((graph.x, graph.w, total), ())
    assert (node.operator.updates, node.operator.reuses) == ((2,), ())


def refused_shape(graph: Products) -> None:
    graph.update(ops.AssignAdd(), graph.kept(1, 16), graph.product())


def refused_dtype(graph: Products) -> None:
    graph.update(ops.AssignAdd(), graph.kept(16, 16, dtype=np.float64), graph.product())


def the_product_is_added_to(graph: Products) -> None:
    graph.update(ops.AssignAdd(), graph.product(), graph.y)


def it_is_read_too(graph: Products) -> None:
    product = graph.product()
    graph.update(ops.AssignAdd(), graph.kept(16, 16), product)
    graph.outputs = [product]


@pytest.mark.parametrize("body", [refused_shape, refused_dtype, the_product_is_added_to, it_is_read_too])
def test_a_product_is_not_added_to_what_is_no_array_like_it(body: Any) -> None:
    graph = Products()
    body(graph)
    assert names(graph, *graph.outputs) == ["MatMul", "AssignAdd"]


def test_what_has_been_added_to_a_product_is_summed_over_steps_apart() -> None:
    graph = Products()
    graph.update(ops.AssignAdd(), graph.kept(16, 16), graph.add(ops.Add(), graph.product(), graph.y))
    assert names(graph) == ["MatMul+Add", "AssignAdd"]
    graph = Products()
    graph.update(ops.AssignAdd(), graph.kept(16, 16), graph.add(ops.Add(), graph.product(), graph.given("b", 16)))
    assert names(graph) == ["MatMul+Add+AssignAdd"]


@pytest.mark.parametrize(
    ("dtype", "wanted"), [(SINGLE, ["MatMul+Cast"]), (np.float64, ["MatMul", "Cast"]), (HALF, ["MatMul", "Cast"])]
)
def test_a_product_of_16_bits_is_widened_to_float32_alone(dtype: Any, wanted: list[str]) -> None:
    graph = Products(HALF)
    assert names(graph, graph.add(ops.Cast(), graph.product(), dtype=dtype)) == wanted


@pytest.mark.parametrize("shape", [(16,), (16, 16)])
def test_what_has_been_added_to_in_16_bits_is_widened_apart(shape: tuple[int, ...]) -> None:
    graph = Products(HALF)
    total = graph.add(ops.Add(), graph.product(), graph.given("other", *shape))
    assert names(graph, graph.add(ops.Cast(), total, dtype=SINGLE)) == ["MatMul+Add", "Cast"]


def test_a_product_that_is_widened_is_added_to_what_is_summed_in_float32() -> None:
    graph = Products(HALF)
    total = graph.kept(16, 16)
    graph.update(ops.AssignAdd(), total, graph.add(ops.Cast(), graph.product(), dtype=SINGLE))
    assert names(graph) == ["MatMul+Cast+AssignAdd"]


@pytest.mark.parametrize(
    ("settings", "of", "is_joined"),
    [
        ({"transpose_a": True}, "x", True),
        ({"transpose_a": True}, "w", True),
        ({}, "x", False),
        ({}, "w", True),
        ({"transpose_b": True}, "w", False),
        ({"transpose_b": True}, "x", False),
        ({"transpose_a": True}, "y", False),
    ],
)
def test_rows_of_a_factor_are_summed_with_a_product_that_adds_over_them(
    settings: dict[str, bool], of: str, is_joined: bool
) -> None:
    graph = Products()
    product = graph.product(**settings)
    sums = graph.sums(getattr(graph, of))
    assert names(graph, product, sums) == (["MatMul+ReduceSum"] if is_joined else ["MatMul", "ReduceSum"])
    if is_joined:
        (node,) = graph.nodes
        assert (node.inputs, node.outputs) == ((graph.x, graph.w), (product, sums))


def test_of_one_product_one_factor_is_summed_the_first_first() -> None:
    graph = Products()
    product = graph.product(transpose_a=True)
    of_w, of_x = graph.sums(graph.w), graph.sums(graph.x)
    assert names(graph, product, of_w, of_x) == ["MatMul+ReduceSum", "ReduceSum"]
    assert graph.nodes[0].outputs == (product, of_x)
    assert graph.nodes[1].outputs == (of_w,)


@pytest.mark.parametrize("of", ["x", "w"])
def test_what_is_made_element_by_element_is_summed_where_it_is_made(of: str) -> None:
    graph = Products()
    made = graph.add(ops.Sqrt(), graph.x)
    product = graph.product(**{of: made}, transpose_a=True)
    assert names(graph, product, graph.sums(made)) == ["Sqrt", "MatMul", "ReduceSum"]


def test_rows_are_summed_apart_from_a_product_that_has_been_added_to() -> None:
    graph = Products()
    total = graph.add(ops.Add(), graph.product(), graph.y)
    assert names(graph, total, graph.sums(graph.w)) == ["MatMul+Add", "ReduceSum"]
    graph = Products()
    total = graph.add(ops.Add(), graph.product(), graph.given("bias", 16))
    assert names(graph, total, graph.sums(graph.w)) == ["MatMul+Add", "ReduceSum"]
    graph = Products()
    made = graph.add(ops.GeLU(), graph.product())
    assert names(graph, made, graph.sums(graph.w)) == ["MatMul+GeLU", "ReduceSum"]


@pytest.mark.parametrize("dims", [(1,), (0, 1)])
def test_only_all_rows_of_each_column_are_summed_with_a_product(dims: tuple[int, ...]) -> None:
    graph = Products()
    product = graph.product()
    sums = graph.add(ops.ReduceSum().configured(axis=dims), graph.w, shape=(16,) if len(dims) == 1 else ())
    assert names(graph, product, sums) == ["MatMul", "ReduceSum"]


@pytest.mark.parametrize(
    ("early", "read_before", "wanted"),
    [
        (True, "nowhere", ["MatMul+ReduceSum", "Sqrt"]),
        # Somebody wants the sums before the product is there.
        (True, "between", ["ReduceSum", "Sqrt", "MatMul"]),
        (True, "outside", ["ReduceSum", "MatMul"]),
        (False, "nowhere", ["MatMul+ReduceSum", "Sqrt"]),
        (False, "outside", ["MatMul+ReduceSum"]),
    ],
)
def test_sums_wait_for_the_product_unless_they_are_wanted_before(
    early: bool, read_before: str, wanted: list[str]
) -> None:
    graph = Products()
    results: list[Value] = []
    for step in ("sums", "product") if early else ("product", "sums"):
        if step == "product":
            results.append(graph.product())
            continue
        sums = graph.sums(graph.w)
        if read_before == "between":
            results.append(graph.add(ops.Sqrt(), sums, shape=(16,)))
        elif read_before == "outside":
            results.append(sums)
    if read_before == "nowhere":
        results.append(graph.add(ops.Sqrt(), sums, shape=(16,)))
    assert names(graph, *results) == wanted


@pytest.mark.parametrize(("early", "changes"), [(True, True), (False, True), (True, False), (False, False)])
def test_sums_are_apart_from_a_product_where_what_they_read_is_overwritten_between(early: bool, changes: bool) -> None:
    graph = Products()
    other = graph.given("other", 16, 16)

    def overwrite() -> None:
        graph.update(Overwrite(), graph.w if changes else other, graph.y)

    if early:
        sums = graph.sums(graph.w)
        overwrite()
        product = graph.product()
    else:
        product = graph.product()
        overwrite()
        sums = graph.sums(graph.w)
    found = names(graph, product, graph.add(ops.Sqrt(), sums, shape=(16,)))
    assert ("MatMul+ReduceSum" in found) is not changes


def test_sums_come_with_a_product_of_what_was_overwritten_before_both_and_not_with_one_of_three_dims() -> None:
    graph = Products()
    graph.update(Overwrite(), graph.w, graph.y)
    assert names(graph, graph.product(), graph.sums(graph.w)) == ["Overwrite", "MatMul+ReduceSum"]
    graph = Products()
    product = graph.add(ops.MatMul(), graph.given("batches", 2, 16, 16), graph.w, shape=(2, 16, 16))
    assert names(graph, product, graph.sums(graph.w)) == ["MatMul", "ReduceSum"]


@pytest.mark.parametrize("notes", [{"micro_batch": 1}, {"action": Action(Kind.FORWARD, 0, 0)}])
def test_sums_and_additions_of_other_actions_stay_apart(notes: dict[str, Any]) -> None:
    graph = Products()
    product = graph.product()
    assert names(graph, product, graph.sums(graph.w, **notes)) == ["MatMul", "ReduceSum"]
    graph = Products()
    assert names(graph, graph.add(ops.Add(), graph.product(), graph.y, **notes)) == ["MatMul", "Add"]


def test_a_product_does_not_wait_where_what_it_reads_is_shown_and_overwritten_in_another_shape() -> None:
    for overwrites, wanted in ((True, "MatMul"), (False, "MatMul+Add")):
        graph = Products()
        line, other = graph.given("line", 256), graph.given("other", 256)
        shown = graph.add(ops.Reshape(), line)
        product = graph.product(x=shown)
        graph.update(Overwrite(), line if overwrites else other, graph.y)
        late = graph.add(ops.Sqrt(), graph.y)
        found = names(graph, graph.add(ops.Add(), product, late))
        assert wanted in found
