"""A cross entropy and its gradient are one node on a device, with the factor of the gradient, and compute the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel import Parameter, nn
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.backend.tensor_spec import Part
from mpiparallel.communication.threads import alone
from mpiparallel.compile.device_fusion.cross_entropy_fusion import fuse_cross_entropy
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.graph import Graph
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
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


def of_one_rank(is_grad: bool) -> Any:
    """Return the loss, or its gradient, as one rank that has all rows computes it."""
    parts = [Part.whole((ROWS, CLASSES)), Part.whole((ROWS,))]
    return P.SparseSoftmaxCrossEntropyWithLogits(is_grad).local(parts, parts[:1] if is_grad else [Part.whole(())])


def alone_it_is_read(logits: Any, labels: Any, of_rows: Any, number: Any) -> list[Any]:
    return [of_one_rank(False)(logits, labels), of_one_rank(True)(logits, labels)]


def times_numbers_of_each_row(logits: Any, labels: Any, of_rows: Any, number: Any) -> list[Any]:
    return [of_one_rank(False)(logits, labels), of_one_rank(True)(logits, labels) * of_rows]


def times_a_number(logits: Any, labels: Any, of_rows: Any, number: Any) -> list[Any]:
    return [of_one_rank(False)(logits, labels), of_one_rank(True)(logits, labels) * number]


def times_itself(logits: Any, labels: Any, of_rows: Any, number: Any) -> list[Any]:
    loss, gradient = of_one_rank(False)(logits, labels), of_one_rank(True)(logits, labels)
    return [loss, gradient * gradient]


def of_logits_that_are_overwritten(logits: Any, labels: Any, of_rows: Any, number: Any) -> list[Any]:
    """The logits show the memory of a parameter, which is another when their gradient comes."""
    kept = Parameter(numbers(CLASSES, ROWS), "kept")
    shown = P.Reshape()(P.Reshape()(kept, (ROWS * CLASSES,)), (ROWS, CLASSES))
    loss = of_one_rank(False)(shown, labels)
    P.Assign()(kept, P.Reshape()(logits, (CLASSES, ROWS)))
    return [loss, of_one_rank(True)(shown, labels)]


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (alone_it_is_read, [f"{LOSS}+{LOSS}"]),
        (times_numbers_of_each_row, [f"{LOSS}+{LOSS}"]),
        (times_a_number, [f"{LOSS}+{LOSS}+Mul"]),
        (times_itself, [f"{LOSS}+{LOSS}"]),
        (of_logits_that_are_overwritten, [LOSS, LOSS]),
    ],
)
def test_a_gradient_is_joined_with_a_number_only_and_where_its_logits_are_still_there(
    written: Callable[..., list[Any]], wanted: list[str]
) -> None:
    given = [numbers(ROWS, CLASSES), LABELS, numbers(ROWS, 1), np.array(np.float32(3))]
    results = []
    for fuses in (False, True):
        trace = Trace()
        with recording(trace):
            values = [trace.graph.add_input(f"input {place}", Tensor(one).spec) for place, one in enumerate(given)]
            trace.graph.outputs = [one.value for one in written(*map(Tensor.of_value, values))]
        if fuses:
            fuse_cross_entropy(trace.graph)
            assert joined(trace.graph) == wanted
        results.append([np.array(one) for one in Program(trace.graph, Runtime()).run(given)])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, 1e-5, 1e-6)


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
