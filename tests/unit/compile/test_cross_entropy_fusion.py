"""A cross entropy and its gradient are one node on a device, with the factor of the gradient, and compute the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel import Parameter, nn
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.communication.threads import alone
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.graph import Graph
from mpiparallel.ops import operations as P
from mpiparallel.train import DynamicLossScaleManager, FixedLossScaleManager, Model
from tests.conformance.cuda_emulator.emulator import NO_COMPILER, EmulatedBackend, EmulatedKernels, compiler
from tests.conformance.hidden_arrays.backend import hidden_backend, install

ROWS, WIDTH, CLASSES = 6, 8, 10
LOSS = "SparseSoftmaxCrossEntropyWithLogits"
LABELS = np.arange(ROWS, dtype=np.int32) * 3 % CLASSES
Scaled = Callable[["Network", Any], Any]


def numbers(*shape: int) -> Any:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


class Network(nn.Cell):
    """Logits, and what is made of their cross entropy."""

    def __init__(self, scaled: Scaled) -> None:
        super().__init__()
        self.scaled = scaled
        self.weight = Parameter(numbers(WIDTH, CLASSES), "weight")
        self.scale = Parameter(np.float32(2), "scale", requires_grad=False)

    def construct(self, x: Any, labels: Any) -> Any:
        self.logits = P.MatMul()(x, self.weight)
        return self.scaled(self, P.SparseSoftmaxCrossEntropyWithLogits()(self.logits, labels))


def times_a_parameter(network: Network, loss: Any) -> Any:
    return loss * (network.scale * 3.0)


def squared(network: Network, loss: Any) -> Any:
    """The gradient's factor is made of the loss."""
    return loss * loss


def with_its_logits(network: Network, loss: Any) -> Any:
    return loss + (network.logits**2).mean()


def after_a_change(network: Network, loss: Any) -> Any:
    """The gradient's factor is read once the parameter is another, long after the loss."""
    P.AssignAdd()(network.scale, network.scale)
    return loss * network.scale


def only_shown(network: Network, loss: Any) -> Any:
    """The loss has no gradient."""
    return P.StopGradient()(loss) + (network.logits**2).mean()


WITH = {
    only_shown: LOSS,
    times_a_parameter: f"{LOSS}+{LOSS}+Mul",
    with_its_logits: f"{LOSS}+{LOSS}+Mul",
    squared: f"{LOSS}+{LOSS}",
    after_a_change: f"{LOSS}+{LOSS}",
}


def model_of(scaled: Scaled, **options: Any) -> tuple[Model, Any]:
    network = Network(scaled)
    return Model(network, optimizer=nn.SGD(network.trainable_params(), 0.1), **options), network


def graph_of(model: Model, on_device: bool = True, overlaps: bool = False) -> tuple[Any, Graph]:
    sharded = model.shard([numbers(ROWS, WIDTH), LABELS]).stages[0]
    return sharded, local_graph(sharded, 0, on_device=on_device, overlaps=overlaps)


def joined(graph: Graph) -> list[str]:
    return [node.operator.name for node in graph.nodes if LOSS in node.operator.name]


@pytest.mark.parametrize("overlaps", [False, True])
@pytest.mark.parametrize("scaled", WITH)
def test_loss_gradient_and_factor_are_one_node(scaled: Scaled, overlaps: bool) -> None:
    assert joined(graph_of(model_of(scaled)[0], overlaps=overlaps)[1]) == [WITH[scaled]]


def test_on_a_cpu_they_stay_two() -> None:
    assert joined(graph_of(model_of(times_a_parameter)[0], on_device=False)[1]) == [LOSS, LOSS]


@pytest.mark.parametrize("manager", [DynamicLossScaleManager(1024), FixedLossScaleManager(1024.0, False)])
def test_casts_of_16_bits_and_the_scale_of_the_loss_are_part_of_it(manager: Any) -> None:
    network = nn.Dense(WIDTH, CLASSES)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    scale = 1024.0 if isinstance(manager, FixedLossScaleManager) else 1.0
    optimizer = nn.SGD(network.trainable_params(), 0.1, loss_scale=scale)
    graph = graph_of(Model(network, loss, optimizer, amp_level="O2", loss_scale_manager=manager))[1]
    assert joined(graph) == [f"Cast+{LOSS}+{LOSS}+Mul+Cast"]


class HostAsDevice(NumpyBackend):
    """NumPy's arrays for what a device runs, which compiles no texts."""

    name = "gpu"


def trained(scaled: Scaled, backend: Any, on_device: bool = True) -> tuple[list[float], Any]:
    """Return the losses of some steps, and the weight."""
    model, network = model_of(scaled)
    sharded, graph = graph_of(model, on_device)
    for name, value in sharded.graph.parameters.items():
        value.parameter.place(sharded.stored[name], 0, backend)
    program = Program(graph, Runtime(backend, alone()))
    batch = [numbers(ROWS, WIDTH), LABELS]
    losses = [float(backend.to_host(program.run(batch)[0])) for _ in range(3)]
    return losses, network.weight.asnumpy()


def compare(scaled: Scaled, backend: Any) -> None:
    losses, weight = trained(scaled, NumpyBackend(), on_device=False)
    found, own = trained(scaled, backend)
    np.testing.assert_allclose(found, losses, 1e-5)
    np.testing.assert_allclose(own, weight, 1e-5, 1e-6)


@pytest.mark.parametrize("scaled", WITH)
def test_networks_train_as_without(scaled: Scaled, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    for backend in (HostAsDevice(), hidden_backend()):
        compare(scaled, backend)


@pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)
def test_a_network_trains_as_without_by_one_launch(tmp_path: Path) -> None:
    kernels = EmulatedKernels(tmp_path)
    compare(times_a_parameter, EmulatedBackend(kernels))
    kernels.close()
    assert sum("const long long label = labels[row];" in text for text in kernels.texts.values()) == 1
