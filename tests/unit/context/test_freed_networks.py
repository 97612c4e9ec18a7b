"""What a network holds is freed with it, without a look of the collector."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np
import pytest

from mpiparallel import Model, Tensor, jit, nn, ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.context.own_method import OwnMethod
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import TraceError
from mpiparallel.graph.graph import Graph

X, Y = Tensor(np.ones((5, 3), np.float32)), Tensor(np.ones((5, 2), np.float32))
USES: dict[str, Callable[[nn.Cell], Any]] = {
    "call": lambda network: network(X),
    "step": lambda network: nn.TrainOneStepCell(
        nn.WithLossCell(network, nn.MSELoss()), nn.Adam(network.trainable_params())
    )(X, Y),
    "training": lambda network: Model(network, nn.MSELoss(), nn.SGD(network.trainable_params())).train(
        1, NumpySlicesDataset((X.asnumpy(), Y.asnumpy()), ["x", "y"]).batch(5)
    ),
    "compiled function": lambda network: jit(lambda x: network(x) + 1.0)(X),
    "gradient": lambda network: ops.GradOperation(get_by_list=True)(network, network.trainable_params())(X),
    "value and gradient": lambda network: ops.value_and_grad(network, None, network.trainable_params())(X),
}


def parameters_after(use: Callable[[nn.Cell], Any]) -> list[ref[Tensor]]:
    """Return references to the parameters of a network that has been used, and that nobody has any more."""
    network = nn.SequentialCell(nn.Dense(3, 4), nn.ReLU(), nn.Dense(4, 2))
    use(network)
    return [ref(one) for one in network.trainable_params()]


@pytest.mark.parametrize("use", USES)
def test_a_network_that_nobody_has_any_more_is_freed_at_once(use: str) -> None:
    """Whoever makes a second one in its place would need room for both."""
    gc.disable()
    try:
        assert [one() is None for one in parameters_after(USES[use])] == [True] * 4
    finally:
        gc.enable()


def test_a_compiled_function_that_calls_another_network_in_the_place_of_one_that_is_freed_is_traced_anew() -> None:
    networks = [nn.Dense(3, 2, weight_init="ones")]
    compiled = jit(lambda x: networks[0](x))
    compiled(X)
    networks[0] = nn.Dense(3, 2, weight_init="zeros")
    assert compiled(X).asnumpy().tolist() == [[0.0, 0.0]] * 5


def test_a_method_of_a_freed_object_is_refused() -> None:
    method = OwnMethod(nn.Dense(3, 2).construct)
    with pytest.raises(ReferenceError, match="gone"):
        method(X)


def test_a_value_whose_graph_is_freed_does_not_pass_for_an_input() -> None:
    graph = Graph()
    read = graph.add_input("x", TensorSpec((2,), np.dtype(np.float32)))
    (computed,) = graph.add_node(ops.ReLU(), "relu", [read], [read.spec]).outputs
    del graph
    assert read.node is None
    with pytest.raises(TraceError, match=r"relu:0.* is gone"):
        _ = computed.node
