"""Nodes that were made one: what they are called, what a device's library is asked for, and the same one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.backend.products.product import Product
from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.dtype import bfloat16
from mpiparallel.graph.execution.joined_cross_entropy import CrossEntropyNodes, JoinedCrossEntropy
from mpiparallel.graph.execution.joined_product import JoinedProduct, JoinedValues
from mpiparallel.graph.execution.one_by_one import one_by_one
from mpiparallel.graph.execution.product_kernel import product_kernel
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.graph import Node, Value
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.ops import operations as P

Array = Any
RANDOM = np.random.default_rng(3)
FLOAT = np.dtype(np.float64)


class Asked(NumpyBackend):
    """Its library writes down what it is asked for, and computes it or not."""

    def __init__(self, computes: bool = False) -> None:
        self.products: Any = self
        self.asked: list[Product] = []
        self.computes = computes

    def bind(self, product: Product, _scratch: Any) -> Callable[[], object] | None:
        self.asked.append(product)
        return (lambda: product.output.fill(7.0)) if self.computes else None


def recorded(make: Callable[..., Any], *shapes: tuple[int, ...]) -> tuple[list[Value], list[Node]]:
    trace = Trace()
    values = [trace.graph.add_input(f"x{place}", TensorSpec(shape, FLOAT)) for place, shape in enumerate(shapes)]
    with recording(trace):
        make(*map(Tensor.of_value, values))
    return values, trace.graph.nodes


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_a_library_is_asked_for_a_product_of_factors_as_they_are_multiplied_and_for_what_comes_with_it(
    turned: tuple[bool, bool],
) -> None:
    x, y = RANDOM.normal(size=(3, 4)), RANDOM.normal(size=(4, 5))
    given = x.T.copy() if turned[0] else x, y.T.copy() if turned[1] else y
    added, bias = RANDOM.normal(size=(3, 5)), RANDOM.normal(size=(1, 5))
    (a, b, c, d), nodes = recorded(
        lambda a, b, c, d: P.MatMul(*turned)(a, b) + c + d, *(one.shape for one in (*given, added, bias))
    )
    output = nodes[-1].outputs[0]
    operator = JoinedProduct(nodes, JoinedValues(output, added=c, bias=d), (a, b, c, d), (output,))
    assert (operator.name, operator.kind) == ("MatMul+Add+Add", "gemm")
    assert (operator.reuses, operator.updates) == ((2,), ())
    for backend in (Asked(), Asked(computes=True)):
        found = np.zeros((3, 5))
        operator.kernel(Runtime(backend), [*given, added, bias], [found])()
        wanted = np.full((3, 5), 7.0) if backend.computes else x @ y + added + bias
        np.testing.assert_allclose(found, wanted, rtol=1e-13)
        product = backend.asked[0]
        np.testing.assert_array_equal(product.x, x)
        np.testing.assert_array_equal(product.y, y)
        assert product.added is added
        assert product.output is found
        assert product.bias is not None
        assert product.bias.shape == (5,)
        assert (product.before, product.slopes_at, product.sums, product.sums_of, product.gelu) == (None,) * 3 + (
            "",
            False,
        )


def test_of_stacked_matrices_the_last_two_dims_are_turned_and_sums_are_in_line() -> None:
    x, y = RANDOM.normal(size=(2, 4, 3)), RANDOM.normal(size=(2, 5, 4))
    (a, b), nodes = recorded(lambda a, b: P.ReduceSum()(P.BatchMatMul(True, True)(a, b), (0, 1)), x.shape, y.shape)
    output, sums = nodes[0].outputs[0], nodes[1].outputs[0]
    values = JoinedValues(output, gelu=True, before=output, slopes_at=output, sums=sums, sums_of="output")
    backend, found = Asked(computes=True), np.zeros((2, 3, 5))
    operator = JoinedProduct(nodes, values, (a, b), (output, sums))
    operator.kernel(Runtime(backend), [x, y], [found, np.zeros((1, 5))])()
    (product,) = backend.asked
    np.testing.assert_array_equal(product.x, x.transpose(0, 2, 1))
    np.testing.assert_array_equal(product.y, y.transpose(0, 2, 1))
    assert product.before is product.slopes_at is found
    assert product.sums is not None
    assert (product.sums.shape, product.sums_of, product.gelu, product.added) == ((5,), "output", True, None)


def test_what_is_added_to_itself_is_an_update_and_what_adds_nothing_takes_no_memory() -> None:
    (a, b, c), nodes = recorded(lambda a, b, c: P.MatMul()(a, b) + c, (2, 2), (2, 2), (2, 2))
    output = nodes[-1].outputs[0]
    updating = JoinedProduct(nodes, JoinedValues(c, added=c), (a, b, c), ())
    assert (updating.updates, updating.reuses) == ((2,), ())
    plain = JoinedProduct(nodes[:1], JoinedValues(nodes[0].outputs[0]), (a, b), (nodes[0].outputs[0],))
    assert (plain.updates, plain.reuses, plain.name) == ((), (), "MatMul")
    assert output.spec.shape == (2, 2)


def test_one_by_one_what_is_between_has_memory_of_its_own() -> None:
    (a, b), nodes = recorded(lambda a, b: P.Sub()(P.Exp()(a), P.Sin()(b)) * P.Cos()(a), (3, 2), (3, 2))
    x, y, found = RANDOM.normal(size=(3, 2)), RANDOM.normal(size=(3, 2)), np.zeros((3, 2))
    run = one_by_one(Runtime(), nodes, {a: x, b: y, nodes[-1].outputs[0]: found})
    for _ in range(2):
        run()
        np.testing.assert_allclose(found, (np.exp(x) - np.sin(y)) * np.cos(x), rtol=1e-13)
        x += 0.5


@pytest.mark.parametrize("scaled", [False, True])
def test_the_mean_cross_entropy_is_joined_with_its_gradient(scaled: bool) -> None:
    trace = Trace()
    logits = trace.graph.add_input("logits", TensorSpec((4, 3), FLOAT))
    labels = trace.graph.add_input("labels", TensorSpec((4,), np.dtype(np.int32)))
    factor = trace.graph.add_input("factor", TensorSpec((), FLOAT))
    with recording(trace):
        x, classes = Tensor.of_value(logits), Tensor.of_value(labels)
        P.SparseSoftmaxCrossEntropyWithLogits()(x, classes)
        gradient = P.SparseSoftmaxCrossEntropyWithLogits(is_grad=True)(x, classes)
        if scaled:
            gradient = gradient * Tensor.of_value(factor)
    nodes = tuple(trace.graph.nodes)
    for node in nodes:
        parts = ([Part.whole(value.spec.shape) for value in side] for side in (node.inputs, node.outputs))
        node.operator = node.operator.local(*parts)
    last = nodes[-1].outputs[0]
    joined = CrossEntropyNodes(nodes, nodes[0], logits, last, factor if scaled else None)
    assert joined.inputs == ((logits, labels, factor) if scaled else (logits, labels))
    assert joined.outputs == (nodes[0].outputs[0], last)
    operator = JoinedCrossEntropy(joined)
    assert operator.name == "+".join(["SparseSoftmaxCrossEntropyWithLogits"] * 2 + ["Mul"] * scaled)
    given, chosen = RANDOM.normal(size=(4, 3)), np.array([2, 0, 1, 1], np.int32)
    mean, slopes = np.zeros(()), np.zeros((4, 3))
    operator.kernel(Runtime(), [given, chosen, *([np.array(5.0)] * scaled)], [mean, slopes])()
    shares = np.exp(given) / np.exp(given).sum(1, keepdims=True)
    np.testing.assert_allclose(mean, -np.log(shares[np.arange(4), chosen]).mean(), rtol=1e-12)
    np.testing.assert_allclose(slopes, (shares - np.eye(3)[chosen]) / 4 * (5.0 if scaled else 1.0), rtol=1e-12)


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "in order": lambda x: x,
    "turned": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "every other": lambda x: np.repeat(x, 2, -1)[..., ::2],
}


@pytest.mark.parametrize("dtype", [np.float16, bfloat16, np.float32, np.float64])
@pytest.mark.parametrize(("first", "second"), [("in order", "turned"), ("turned", "every other"), ("every other",) * 2])
def test_without_a_library_a_product_is_the_array_librarys_and_of_16_bits_is_rounded_once(
    first: str, second: str, dtype: Any
) -> None:
    kind = np.dtype(dtype)
    x, y = (RANDOM.integers(-8, 9, shape).astype(kind) for shape in ((2, 1, 3, 70), (4, 70, 5)))
    found = np.zeros((2, 4, 3, 5), kind)
    backend = Asked()
    run = product_kernel(Runtime(backend), LAYOUTS[first](x), LAYOUTS[second](y), found, allows_tf32=True)
    assert backend.asked[0].allows_tf32
    wanted = (x.astype(np.float64) @ y.astype(np.float64)).astype(np.float32).astype(kind)
    for _ in range(2):
        run()
        np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))
        found[...] = 0


@pytest.mark.parametrize("columns", [3, 90])
def test_a_product_of_16_bits_reads_its_factors_anew_in_each_run(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPIPARALLEL_JIT", "0")
    x, y = np.ones((60, 80), np.float16), np.ones((80, columns), np.float32)
    found = np.zeros((60, columns), np.float16)
    run = product_kernel(Runtime(Asked()), x, y, found)
    for factor in (1.0, 2.0):
        x[...] = factor
        run()
        assert (found == 80.0 * factor).all()
