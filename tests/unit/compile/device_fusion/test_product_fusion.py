"""What is added to a product, GELU of it and sums of rows come with it on a device, and compute the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mpiparallel import Parameter, context, nn
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication.threads import alone
from mpiparallel.compile.device_fusion.product_fusion import fuse_products
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.dtype import bfloat16
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.term import Term
from mpiparallel.graph.graph import Graph
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.ops import operations as P
from mpiparallel.train import Model
from mpiparallel.train.amp import auto_mixed_precision
from tests.conformance.hidden_arrays.backend import hidden_backend, install
from tests.reliability.counts import count

ROWS, WIDTH, INNER = 6, 8, 16
Body = Callable[["Network", Any], Any]


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(shape).normal(size=shape).astype(dtype) * dtype(0.5)


class Network(nn.Cell):
    """A function of weights and a batch of rows, and the mean of its squares."""

    def __init__(self, body: Body, dtype: Any = np.float32) -> None:
        super().__init__()
        self.body = body
        self.first = Parameter(numbers(WIDTH, INNER, dtype=dtype), "first")
        self.second = Parameter(numbers(WIDTH, INNER, dtype=dtype)[::-1].copy(), "second")
        self.bias = Parameter(numbers(INNER, dtype=dtype), "bias")

    def construct(self, x: Any) -> Any:
        return (self.body(self, x) ** 2).mean()


def layer(net: Network, x: Any) -> Any:
    """A layer of a Transformer's network of two products, with a residual."""
    inner = P.GeLU()(P.BiasAdd()(P.MatMul()(x, net.first), net.bias))
    return P.MatMul(transpose_b=True)(inner, net.second) + x


def stacked(net: Network, x: Any) -> Any:
    inner = P.GeLU()(P.BatchMatMul()(x.reshape((2, ROWS // 2, WIDTH)), net.first) + net.bias)
    return P.BatchMatMul(transpose_b=True)(inner, net.second)


def no_bias(net: Network, x: Any) -> Any:
    return P.MatMul(transpose_b=True)(P.GeLU()(P.MatMul()(x, net.first)), net.second)


def twice(net: Network, x: Any) -> Any:
    """Products of one weight, whose gradients are added up."""
    return P.MatMul(transpose_b=True)(P.MatMul()(x, net.first), net.first)


def after_a_product(net: Network, x: Any) -> Any:
    """A bias whose gradient sums what a product gives."""
    inner = P.BiasAdd()(P.MatMul()(x, net.first), net.bias)
    return P.MatMul(transpose_b=True)(inner, net.second)


def read_twice(net: Network, x: Any) -> Any:
    """A product that something else reads as well."""
    product = P.MatMul()(x, net.first)
    return P.BiasAdd()(product, net.bias) * product


def by_a_sigmoid(net: Network, x: Any) -> Any:
    inner = P.BiasAdd()(P.MatMul()(x, net.first), net.bias)
    return inner * P.Sigmoid()(inner * 1.702)


NAMES = {
    layer: ["MatMul+BiasAdd+GeLU", "MatMul+Add", "MatMul+GeluGrad+ReduceSum"],
    stacked: ["BatchMatMul+Add+GeLU", "BatchMatMul+GeluGrad+ReduceSum"],
    no_bias: ["MatMul+GeLU", "MatMul+GeluGrad"],
    twice: ["MatMul+Add"],
    after_a_product: ["MatMul+BiasAdd", "MatMul+ReduceSum"],
    read_twice: [],
    by_a_sigmoid: ["MatMul+BiasAdd"],
}


def graph_of(network: Network, steps: int = 1, on_device: bool = True) -> tuple[Any, Graph]:
    context.set_auto_parallel_context(grad_accumulation_step=steps)
    model = Model(network, optimizer=nn.SGD(network.trainable_params(), 0.1))
    sharded = model.shard([numbers(ROWS, WIDTH)]).stages[0]
    return sharded, local_graph(sharded, 0, on_device=on_device)


def joined(graph: Graph) -> list[str]:
    """Return the names of the products with what is joined to them."""
    return [node.operator.name for node in graph.nodes if "MatMul+" in node.operator.name]


@pytest.mark.parametrize("body", NAMES)
def test_what_comes_with_a_product_is_found(body: Body) -> None:
    assert sorted(joined(graph_of(Network(body))[1])) == sorted(NAMES[body])


def test_on_a_cpu_and_in_float64_nothing_is_joined() -> None:
    assert joined(graph_of(Network(layer), on_device=False)[1]) == []
    assert joined(graph_of(Network(layer, np.float64))[1]) == []


def test_gradients_of_16_bits_are_summed_into_those_of_float32() -> None:
    network = Network(layer)
    auto_mixed_precision(network, "O3", bfloat16)
    assert joined(graph_of(network, 2)[1]).count("MatMul+Cast+AddTerms") == 2


def trained(body: Body, dtype: Any, backend: Any, steps: int = 1) -> tuple[list[float], list[Any]]:
    """Return the losses of some steps, and the parameters."""
    network = Network(body)
    if dtype != np.float32:
        auto_mixed_precision(network, "O3", dtype)
    sharded, graph = graph_of(network, steps, on_device=backend.name == "gpu")
    for name, value in sharded.graph.parameters.items():
        if value.parameter is not None:
            value.parameter.place(sharded.stored[name], 0, backend)
    program = Program(graph, Runtime(backend, alone()))
    batches = ([numbers(ROWS, WIDTH) * (1 + step)] for step in range(2 * steps))
    losses = [float(backend.to_host(program.run(batch)[0])) for batch in batches]
    return losses, [one.asnumpy() for one in network.trainable_params()]


class HostAsDevice(type(Runtime().backend)):  # type: ignore[misc]
    """NumPy's arrays for what a device runs: its own products take none of it."""

    name = "gpu"


TOLERANCES = {np.float32: 2e-5, bfloat16: 4e-2, np.float16: 4e-3}
TRAINED = [
    *((body, 1, np.float32) for body in NAMES),
    (layer, 2, bfloat16),
    (stacked, 1, np.float16),
    (layer, 2, np.float32),
]


@pytest.mark.parametrize(("body", "steps", "dtype"), TRAINED)
def test_networks_train_as_without(body: Body, steps: int, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tolerance = TOLERANCES[dtype]
    losses, weights = trained(body, dtype, Runtime().backend, steps)
    install(monkeypatch)
    for backend in (HostAsDevice(), hidden_backend()):
        found, own = trained(body, dtype, backend, steps)
        np.testing.assert_allclose(found, losses, tolerance)
        for one, other in zip(own, weights, strict=True):
            np.testing.assert_allclose(one, other, tolerance, tolerance)


class Weighted(Operator):
    """A sum with twice the other, which no library adds to a product."""

    def expression(self, *inputs: Term) -> Sequence[Term]:
        return [inputs[0] + inputs[1] * 2.0]


SINGLE, HALF = np.float32, np.float16


@pytest.mark.parametrize(
    ("types", "body", "wanted"),
    [
        ((SINGLE, SINGLE), lambda x, w, y: P.Add()(P.MatMul()(x, w), y), ["MatMul+Add"]),
        ((SINGLE, SINGLE), lambda x, w, y: Weighted()(P.MatMul()(x, w), y), []),
        ((SINGLE, HALF), lambda x, w, y: P.Add()(P.MatMul()(x, w), y), []),
        ((HALF, HALF), lambda x, w, y: P.GeLU()(P.MatMul()(x, w)), ["MatMul+GeLU"]),
        # In float32 it has digits that the product has lost.
        ((HALF, HALF), lambda x, w, y: P.GeLU()(P.Cast()(P.MatMul()(x, w), SINGLE)), ["MatMul+Cast"]),
    ],
)
def test_only_what_a_library_adds_or_applies_in_the_type_of_the_factors_comes_with_a_product(
    types: tuple[Any, Any], body: Callable[..., Any], wanted: list[str]
) -> None:
    trace = Trace()
    given = [numbers(SIDE, SIDE, dtype=one) for one in (*types, SINGLE)]
    with recording(trace):
        values = [trace.graph.add_input(f"input {place}", Tensor(one).spec) for place, one in enumerate(given)]
        trace.graph.outputs = [body(*map(Tensor.of_value, values)).value]
    fuse_products(trace.graph)
    assert joined(trace.graph) == wanted


SIDE = 8
CHOICES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "product": lambda x, y, w, b: P.MatMul()(x, y),
    "product of a weight": lambda x, y, w, b: P.MatMul(transpose_b=True)(x, w),
    "gradient of a weight": lambda x, y, w, b: P.MatMul(transpose_a=True)(x, y),
    "add": lambda x, y, w, b: P.Add()(x, y),
    "bias": lambda x, y, w, b: P.BiasAdd()(x, b),
    "bias of sums": lambda x, y, w, b: P.BiasAdd()(x, P.ReduceSum()(y, 0)),
    "gelu": lambda x, y, w, b: P.GeLU()(x),
    "slope": lambda x, y, w, b: P.GeluGrad()(x, y),
    "sums": lambda x, y, w, b: P.Sub()(y, P.ReduceSum()(x, 0)),
    "add to a weight": lambda x, y, w, b: P.AssignAdd()(w, x),
    "overwrite a weight": lambda x, y, w, b: P.Assign()(w, x),
    "turned": lambda x, y, w, b: P.Transpose()(x, (1, 0)),
}
Recipe = list[tuple[str, int, int]]


def traced(recipe: Recipe) -> tuple[Graph, Parameter]:
    """Return the graph of a recipe: at each step something of matrices made before, counted backwards."""
    trace = Trace()
    weight = Parameter(numbers(SIDE, SIDE), "weight")
    with recording(trace):
        first = Tensor.of_value(trace.graph.add_input("x", TensorSpec((SIDE, SIDE), np.dtype(np.float32))))
        bias = Tensor.of_value(trace.graph.add_input("bias", TensorSpec((SIDE,), np.dtype(np.float32))))
        values = [first, P.Tanh()(first)]
        for choice, *places in recipe:
            x, y = (values[-1 - place % len(values)] for place in places)
            made = CHOICES[choice](x, y, weight, bias)
            if "weight" not in choice or "of a" in choice:
                values.append(made)
    trace.graph.outputs = [one.value for one in values[-2:] if one.value is not None]
    trace.graph.remove_dead_nodes()
    return trace.graph, weight


recipes = st.lists(
    st.tuples(st.sampled_from(list(CHOICES)), st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=9
)


@settings(max_examples=count(400, 12), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(recipes)
@example([("product", 0, 1), ("bias of sums", 0, 1), ("add", 0, 2), ("gelu", 1, 0)])
@example([("product", 0, 1), ("product of a weight", 1, 0), ("add to a weight", 1, 0), ("gelu", 0, 0)])
def test_any_graph_computes_what_it_does_unfused(recipe: Recipe) -> None:
    results = []
    with pytest.MonkeyPatch.context() as patch:
        install(patch)
        for fuses in (False, True):
            backend = hidden_backend()
            graph, weight = traced(recipe)
            if fuses:
                fuse_products(graph)
            weight.place(Layout.replicated(weight.shape, DeviceMatrix((1,))), 0, backend)
            with np.errstate(all="ignore"):
                outputs = Program(graph, Runtime(backend)).run([numbers(SIDE, SIDE), numbers(SIDE)])
            results.append([backend.to_host(one).copy() for one in outputs] + [weight.asnumpy()])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, 1e-3, 1e-3 * max(1.0, float(np.abs(other).max())))
