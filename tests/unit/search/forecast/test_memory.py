"""The memory of a rank by kind, against the arrays that its program has."""

from __future__ import annotations

import threading
from collections import Counter
from unittest import mock

import numpy as np
import pytest

from mpiparallel import Tensor, context, nn, ops
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.communication.threads import run_world
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.search.cost.scratch import kernel_memory
from mpiparallel.search.forecast.communication_buffers import communication_buffers, summing_buffers
from mpiparallel.search.forecast.memory import memory_of
from tests.conformance.scratch_meter import measured_scratch

SETTINGS = {"parallel_mode": "semi_auto_parallel", "full_batch": True}


class Turned(nn.Cell):
    """A product whose input is cut by rows, then by columns: its parts are exchanged; its weight is cut too."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(256, 256, has_bias=False)
        self.relu, self.again = ops.ReLU().shard(((2, 1),)), ops.ReLU().shard(((1, 2),))

    def construct(self, x):
        return self.dense(self.again(self.relu(x))).mean()


@pytest.mark.parametrize("shards", [False, True], ids=["whole-weights", "shards"])
def test_buffers_of_communication_are_what_collectives_take_beside_what_they_read_and_write(shards) -> None:
    staged: Counter[str] = Counter()

    def counted(self: NumpyBackend, shape: tuple[int, ...], dtype: object) -> np.ndarray:
        array = np.empty(shape, dtype)
        staged[threading.current_thread().name] += array.nbytes
        return array

    def job(communicator):
        context.reset_auto_parallel_context()
        context.set_auto_parallel_context(
            **SETTINGS,
            enable_parallel_optimizer=shards,
            parallel_optimizer_config={"parallel_optimizer_threshold": 0},
        )
        network = Turned()
        network.dense.matmul.shard(((2, 1), (1, 1)) if shards else ((1, 2), (1, 2)))
        step = nn.TrainOneStepCell(network, nn.Adam(network.trainable_params(), 0.1)).set_train()
        step.compile(Tensor(np.ones((512, 256), np.float32)))
        (compiled,) = step.program.programs
        return threading.current_thread().name, communication_buffers(compiled.local.nodes, communicator.rank)

    with mock.patch.object(NumpyBackend, "host_array", counted), measured_scratch() as packed:
        found = run_world(2, job)
    for name, told in found:
        assert told == staged[name] + packed[name] > 0


def test_libraries_are_a_kind_of_their_own() -> None:
    graph = nn.Dense(4, 4).sharded_graph(Tensor(np.ones((2, 4), np.float32)))
    local = local_graph(graph, 0)
    without, with_them = memory_of(graph, local), memory_of(graph, local, 1e6)
    assert with_them.total - without.total == with_them.kinds["libraries"] >= 1_000_000
    assert without.kinds["libraries"] == 0


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [(((2, 1), (1, 1)), 256 * 256 * 4 + 4), (((1, 2), (1, 2)), 2 * 512 * 256 * 4)],
    ids=["sum", "parts"],
)
def test_the_mpi_library_takes_one_copy_of_what_it_sums_up_and_two_where_each_rank_keeps_a_part(
    strategy, wanted
) -> None:
    """A gradient is summed whole, in one message with the loss; terms of a product are summed to rows of it."""
    context.set_auto_parallel_context(**SETTINGS, device_num=2)
    network = Turned()
    network.dense.matmul.shard(strategy)
    step = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 0.1, 0.9)).set_train()
    local = local_graph(step.sharded_graph(Tensor(np.ones((512, 256), np.float32))), 0)
    assert summing_buffers(local.nodes) == wanted


def test_what_computes_nothing_needs_memory_at_no_node() -> None:
    class Given(nn.Cell):
        def construct(self, x):
            return x

    graph = Given().sharded_graph(Tensor(np.ones((2, 4), np.float32)))
    found = memory_of(graph, local_graph(graph, 0))
    assert (found.fullest_at, found.arena) == ("", 0)
    assert (found.kinds["inputs"], found.total) == (32, 32)


def test_what_an_operator_computes_is_an_activation_and_fills_the_arena() -> None:
    class Square(nn.Cell):
        def construct(self, x):
            return ops.matmul(x, x)

    graph = Square().sharded_graph(Tensor(np.ones((16, 16), np.float32)))
    found = memory_of(graph, local_graph(graph, 0))
    assert (found.kinds["activations"], found.kinds["gaps"], found.arena) == (16 * 16 * 4, 0, 16 * 16 * 4)


def test_weights_are_what_is_trained_and_states_what_the_optimizer_keeps_of_them() -> None:
    network = Turned()
    step = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 0.1, 0.9)).set_train()
    graph = step.sharded_graph(Tensor(np.ones((512, 256), np.float32)))
    kinds = memory_of(graph, local_graph(graph, 0)).kinds
    # One moment for each weight, and a few numbers such as the count of steps.
    assert kinds["weights"] == 256 * 256 * 4
    assert 256 * 256 * 4 < kinds["optimizer states"] < 256 * 256 * 4 + 64


def test_the_arena_is_fullest_where_a_value_is_read_for_the_last_time_beside_what_is_made_of_it() -> None:
    class Squares(nn.Cell):
        def construct(self, x):
            return ops.matmul(ops.matmul(ops.matmul(x, x), x), x)

    graph = Squares().sharded_graph(Tensor(np.ones((16, 16), np.float32)))
    found = memory_of(graph, local_graph(graph, 0))
    # Two of the three products at a time; the second comes first at which that is so.
    assert (found.kinds["activations"], found.kinds["gaps"], found.arena) == (2 * 1024, 0, 2 * 1024)
    assert found.fullest_at == "MatMul-1"


def test_what_the_network_computes_stays_an_activation_in_another_layout_and_what_is_fed_does_not() -> None:
    class Gathered(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = ops.MatMul().shard(((2, 1), (1, 1))), ops.MatMul().shard(((1, 1), (1, 1)))

        def construct(self, x):
            y = self.first(x, x)
            return self.second(y, y)

    context.set_auto_parallel_context(**SETTINGS, device_num=2)
    graph = Gathered().sharded_graph(Tensor(np.ones((16, 16), np.float32)))
    kinds = memory_of(graph, local_graph(graph, 0)).kinds
    # Half of the first product and all of it, or all of it and the second.
    assert kinds["activations"] == 2 * 1024
    assert kinds["communication buffers"] == 0


def test_libraries_grow_by_what_is_kept_of_each_loop_and_each_node() -> None:
    class Squared(nn.Cell):
        def construct(self, x):
            return (ops.relu(x) * x).sum() + ops.sqrt(x)

    graph = Squared().sharded_graph(Tensor(np.ones((64, 64), np.float32)))
    local = local_graph(graph, 0)
    loops = kernel_memory(local).loops
    assert loops > 0
    assert memory_of(graph, local, 1e6).kinds["libraries"] == 1_000_000 + loops * 70_000 + len(local.nodes) * 10_000


def test_gradients_are_a_kind_of_their_own_before_they_are_summed_and_after() -> None:
    network = nn.Dense(256, 256, has_bias=False)
    step = nn.TrainOneStepCell(network, nn.SGD(network.trainable_params(), 0.1)).set_train()
    for ranks in (1, 2):
        configuration = ParallelConfiguration("data_parallel", device_num=ranks)
        graph = step.sharded_graph(Tensor(np.ones((2, 256), np.float32)), configuration=configuration)
        assert memory_of(graph, local_graph(graph, 0)).kinds["gradients"] == 256 * 256 * 4


@pytest.mark.parametrize("ranks", [1, 2])
def test_what_fills_the_arena_and_its_gaps_are_all_of_it_and_all_kinds_are_the_total(ranks: int) -> None:
    network = nn.SequentialCell(nn.Dense(64, 64), nn.ReLU(), nn.Dense(64, 64))
    step = nn.TrainOneStepCell(
        nn.WithLossCell(network, nn.MSELoss()), nn.Momentum(network.trainable_params(), 0.1, 0.9)
    ).set_train()
    configuration = ParallelConfiguration("data_parallel", device_num=ranks)
    graph = step.sharded_graph(*[Tensor(np.ones((256, 64), np.float32))] * 2, configuration=configuration)
    local = local_graph(graph, 0)
    found = memory_of(graph, local)
    beside = communication_buffers(local.nodes, 0) + summing_buffers(local.nodes)
    filling = "activations", "gradients", "communication buffers", "working memory"
    of_arena = sum(found.kinds[kind] for kind in filling)
    assert of_arena - beside + found.kinds["gaps"] == found.arena
    assert (beside > 0) is (ranks == 2)
    assert found.kinds["gaps"] >= 0
    assert found.total == sum(found.kinds.values())
    # What both layers compute is kept for the gradient.
    assert found.kinds["activations"] >= 2 * 256 * 64 * 4
    assert found.kinds["inputs"] >= 2 * 256 * 64 * 4
    assert found.fullest_at in {node.name for node in local.nodes}
