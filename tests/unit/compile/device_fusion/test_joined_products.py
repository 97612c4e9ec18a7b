"""What is joined to a product, on graphs of a few operators that are made by hand."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.device_fusion.product_fusion import fuse_products
from mpiparallel.graph.graph import Graph, Notes, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.parameter import Parameter

SINGLE, HALF = np.dtype(np.float32), np.dtype(np.float16)


class Products(Graph):
    """A product of 16 x 16 matrices, and what comes after it."""

    def __init__(self, dtype: Any = SINGLE, size: int = 16) -> None:
        super().__init__()
        self.dtype, self.size = np.dtype(dtype), size
        self.x, self.w = self.given("x"), self.given("w")

    def given(self, name: str, *shape: int, dtype: Any = None) -> Value:
        return self.add_input(name, TensorSpec(shape or (self.size, self.size), np.dtype(dtype or self.dtype)))

    def add(self, operator: Operator, *inputs: Value, shape: tuple[int, ...] | None = None, **notes: Any) -> Value:
        dtype = notes.pop("dtype", self.dtype)
        spec = TensorSpec((self.size, self.size) if shape is None else shape, np.dtype(dtype))
        return self.add_node(operator, operator.name, inputs, [spec], Notes(**notes)).outputs[0]

    def product(self, **notes: Any) -> Value:
        return self.add(ops.MatMul(), self.x, self.w, **notes)


def names(graph: Graph, *outputs: Value) -> list[str]:
    graph.outputs = [*outputs]
    fuse_products(graph)
    return [node.operator.name for node in graph.nodes]


@pytest.mark.parametrize(
    ("dtype", "is_joined"),
    [(SINGLE, True), (HALF, True), (ml_dtypes.bfloat16, True), (np.float64, False), (np.int32, False)],
)
def test_numbers_of_32_and_16_bits_are_added_to_a_product(dtype: Any, is_joined: bool) -> None:
    graph = Products(dtype)
    total = graph.add(ops.Add(), graph.product(), graph.given("y"))
    assert names(graph, total) == (["MatMul+Add"] if is_joined else ["MatMul", "Add"])


@pytest.mark.parametrize(
    ("shape", "is_first", "is_joined"),
    [
        ((16, 16), True, True),
        ((16, 16), False, True),
        # A number for each column, whichever dims it has.
        ((16,), True, True),
        ((1, 16), False, True),
        # A number for each row, or one for all, is none for each column.
        ((16, 1), True, False),
        ((), True, False),
        ((1,), True, False),
    ],
)
def test_an_array_like_the_product_or_a_number_for_each_column_is_added(
    shape: tuple[int, ...], is_first: bool, is_joined: bool
) -> None:
    graph = Products()
    other = graph.add_input("other", TensorSpec(shape, SINGLE))
    pair = [graph.product(), other]
    total = graph.add(ops.Add(), *(pair if is_first else pair[::-1]))
    assert names(graph, total) == (["MatMul+Add"] if is_joined else ["MatMul", "Add"])
    if is_joined:
        (node,) = graph.nodes
        assert (set(node.inputs), node.outputs) == ({graph.x, graph.w, other}, (total,))
        assert [one.operator.name for one in node.members] == ["MatMul", "Add"]
        assert (total.node, total.index) == (node, 0)


def test_a_bias_and_an_array_are_added_and_no_second_of_either() -> None:
    graph = Products()
    total = graph.product()
    for shape in ((16,), (16, 16), (16,), (16, 16)):
        total = graph.add(ops.Add(), total, graph.given("other", *shape))
    assert names(graph, total) == ["MatMul+Add+Add", "Add", "Add"]


@pytest.mark.parametrize("operator", [ops.Sub, ops.Mul, ops.Maximum])
def test_what_does_something_else_stays_apart(operator: type[Operator]) -> None:
    graph = Products()
    assert len(names(graph, graph.add(operator(), graph.product(), graph.given("y")))) == 2
    graph = Products()
    twice = graph.product()
    assert names(graph, graph.add(ops.Add(), twice, twice)) == ["MatMul", "Add"]


@pytest.mark.parametrize(("size", "is_joined"), [(16, True), (8, True), (12, False), (4, False)])
def test_gelu_comes_with_a_product_of_columns_by_eights(size: int, is_joined: bool) -> None:
    graph = Products(size=size)
    made = graph.add(ops.GeLU(), graph.product())
    assert names(graph, made) == (["MatMul+GeLU"] if is_joined else ["MatMul", "GeLU"])


def test_after_gelu_nothing_more_is_joined_and_what_it_was_of_is_kept_where_others_read_it() -> None:
    graph = Products()
    product = graph.product()
    made = graph.add(ops.GeLU(), product)
    assert names(graph, graph.add(ops.Add(), made, graph.given("y"))) == ["MatMul+GeLU", "Add"]
    assert graph.nodes[0].outputs == (made,)
    graph = Products()
    product = graph.product()
    made = graph.add(ops.GeLU(), product)
    assert names(graph, made, product) == ["MatMul+GeLU"]
    assert graph.nodes[0].outputs == (made, product)


@pytest.mark.parametrize(
    ("guarded", "micro_batch", "is_joined"), [(False, None, True), (True, None, False), (False, 1, False)]
)
def test_only_what_runs_under_the_same_conditions_is_joined(
    guarded: bool, micro_batch: int | None, is_joined: bool
) -> None:
    graph = Products()
    guards = (graph.given("flag", 1),) if guarded else ()
    total = graph.add(ops.Add(), graph.product(), graph.given("y"), guards=guards, micro_batch=micro_batch)
    assert names(graph, total) == (["MatMul+Add"] if is_joined else ["MatMul", "Add"])


def test_a_product_that_something_else_reads_or_that_is_returned_is_not_added_to() -> None:
    graph = Products()
    product = graph.product()
    total = graph.add(ops.Add(), product, graph.given("y"))
    assert names(graph, total, product) == ["MatMul", "Add"]
    graph = Products()
    product = graph.product()
    total, other = graph.add(ops.Add(), product, graph.given("y")), graph.add(ops.Sqrt(), product)
    assert names(graph, total, other) == ["MatMul", "Add", "Sqrt"]


class Overwrite(Operator):
    """Changes its first input."""

    updates = (0,)


@pytest.mark.parametrize(
    ("is_late", "overwrites", "wanted"),
    [
        # All that it needs is there before, so the sum is made where the product is.
        (False, False, ["MatMul+Add", "Overwrite"]),
        # What is added comes later, so the product waits, unless what it reads is overwritten meanwhile.
        (True, False, ["Overwrite", "Sqrt", "MatMul+Add"]),
        (True, True, ["MatMul", "Overwrite", "Sqrt", "Add"]),
    ],
)
def test_a_product_waits_for_what_is_added_if_what_it_reads_stays(
    is_late: bool, overwrites: bool, wanted: list[str]
) -> None:
    graph = Products()
    other = graph.add_parameter(Parameter(np.ones((16, 16), np.float32), "other"), graph.x.spec)
    y = graph.given("y")
    product = graph.product()
    graph.add_node(Overwrite(), "Overwrite", [graph.x if overwrites else other, y], [])
    added = graph.add(ops.Sqrt(), y) if is_late else y
    assert names(graph, graph.add(ops.Add(), product, added)) == wanted


def test_the_rows_of_a_factor_are_summed_with_the_product_that_turns_it() -> None:
    for operator, wanted in (
        (ops.MatMul(transpose_a=True), ["MatMul+ReduceSum"]),
        (ops.MatMul(), ["MatMul", "ReduceSum"]),
    ):
        graph = Products()
        product = graph.add(operator, graph.x, graph.w)
        sums = graph.add(ops.ReduceSum().configured(axis=(0,)), graph.x, shape=(16,))
        assert names(graph, product, sums) == wanted
    graph = Products()
    product = graph.add(ops.MatMul(transpose_a=True), graph.x, graph.w)
    # Of columns, or of what is made element by element, it does not.
    by_columns = graph.add(ops.ReduceSum().configured(axis=(1,)), graph.x, shape=(16,))
    assert names(graph, product, by_columns) == ["MatMul", "ReduceSum"]


def test_a_product_of_no_elements_or_of_factors_of_another_dtype_is_left_alone() -> None:
    graph = Products()
    empty = graph.given("empty", 0, 16)
    product = graph.add(ops.MatMul(), empty, graph.w, shape=(0, 16))
    total = graph.add(ops.Add(), product, graph.given("y", 0, 16), shape=(0, 16))
    assert names(graph, total) == ["MatMul", "Add"]
    graph = Products()
    product = graph.add(ops.MatMul(), graph.given("half", dtype=HALF), graph.given("other half", dtype=HALF))
    assert names(graph, graph.add(ops.Add(), product, graph.given("y"))) == ["MatMul", "Add"]
