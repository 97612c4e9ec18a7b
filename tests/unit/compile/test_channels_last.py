"""Images whose channels are last in memory, for convolutions by tensor cores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import context, nn, ops
from mpiparallel.communication.threads import alone
from mpiparallel.compile.rank_graph import local_graph, rank_graph
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.graph.execution.program import Program
from mpiparallel.graph.execution.runtime import RandomState, Runtime
from mpiparallel.graph.graph import Graph
from mpiparallel.train import Model


class Images(nn.Cell):
    """Two convolutions with batch norm and a residual between, pooling, and a classifier."""

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        context.set_seed(5)
        self.dtype = dtype
        self.first = nn.Conv2d(3, 16, 3, pad_mode="same")
        self.norm = nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 16, 3, pad_mode="same")
        self.pool = nn.MaxPool2d(2, 2)
        self.dense = nn.Dense(16, 4)
        for cell in (self.first, self.second):
            cell.to_float(dtype)

    def construct(self, x: Any, wanted: Any) -> Any:
        y = ops.relu(self.norm(self.first(x).astype(np.float32))).astype(self.dtype)
        y = ops.relu(y + self.second(y))
        y = self.pool(y).astype(np.float32).mean((2, 3))
        return ((self.dense(y) - wanted) ** 2).mean()


def batch() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal((4, 3, 8, 6), np.float32), random.standard_normal((4, 4), np.float32)]


def sharded(network: nn.Cell) -> ShardedGraph:
    model = Model(network, optimizer=nn.SGD(network.trainable_params(), 0.1))
    return model.shard(batch()).stages[0]


def shapes(graph: Graph) -> set[tuple[int, ...]]:
    return {value.spec.shape for value in graph.channels_last}


def trained(network: nn.Cell, on_device: bool) -> tuple[list[float], list[np.ndarray]]:
    """Return the losses of three steps on arrays of NumPy, and the parameters."""
    graph = sharded(network)
    for name, value in graph.graph.parameters.items():
        value.parameter.place(graph.stored[name], 0, Runtime().backend)
    program = Program(local_graph(graph, 0, on_device=on_device), Runtime(communicator=alone(), random=RandomState(3)))
    losses = [float(program.run(batch())[0]) for _ in range(3)]
    return losses, [parameter.asnumpy() for parameter in network.trainable_params()]


def test_images_between_convolutions_of_16_bits_have_their_channels_last() -> None:
    graph = sharded(Images(np.float16))
    assert shapes(local_graph(graph, 0)) == set()
    on_device = local_graph(graph, 0, on_device=True)
    assert shapes(on_device) == {(4, 16, 8, 6), (4, 16, 4, 3)}
    images = {value for node in on_device.nodes for value in node.outputs if value.spec.shape == (4, 16, 8, 6)}
    assert images == {value for value in on_device.channels_last if value.spec.shape == (4, 16, 8, 6)}


def test_images_of_float32_stay_in_the_order_of_their_dims() -> None:
    images = sharded(Images(np.float32))
    assert shapes(local_graph(images, 0, on_device=True)) == set()
    assert shapes(rank_graph(images, 0, on_device=True).graph) == set()


def test_images_of_float32_have_their_channels_last_where_they_may_be_rounded() -> None:
    on_device = local_graph(sharded(Images(np.float32)), 0, on_device=True, in_tf32=True)
    assert shapes(on_device) == {(4, 16, 8, 6), (4, 16, 4, 3)}


def test_the_order_in_memory_changes_nothing() -> None:
    (wanted, weights), (losses, updated) = (trained(Images(np.float16), on_device) for on_device in (False, True))
    np.testing.assert_allclose(losses, wanted, rtol=2e-3)
    for one, other in zip(updated, weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-3)


def test_no_output_lies_on_an_input_in_another_order() -> None:
    random = np.random.default_rng(1)
    losses, _ = trained(Images(np.float16), False)
    network = Images(np.float16)
    whole = sharded(network)
    for name, value in whole.graph.parameters.items():
        value.parameter.place(whole.stored[name], 0, Runtime().backend)
    mixed = local_graph(whole, 0, on_device=True)
    mixed.channels_last = frozenset(value for value in mixed.channels_last if random.random() < 0.5)
    program = Program(mixed, Runtime(communicator=alone(), random=RandomState(3)))
    np.testing.assert_allclose([float(program.run(batch())[0]) for _ in range(3)], losses, rtol=2e-3)


@pytest.fixture(autouse=True)
def one_device() -> None:
    context.reset_auto_parallel_context()
