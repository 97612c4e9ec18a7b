"""One graph placed in many ways: by other strategies, by the names of its nodes, and on any ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mpiparallel import Tensor, nn, ops, set_auto_parallel_context
from mpiparallel.communication.threads import run_world
from mpiparallel.compile.bind import bind
from mpiparallel.compile.localise import localise
from mpiparallel.compile.place import place
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.compile.strategies import Strategies
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode
from mpiparallel.parallel.legal_strategies import legal_strategies

X = np.random.default_rng(3).normal(size=(8, 4))
W = np.random.default_rng(4).normal(size=(4, 6))
SEMI_AUTO = ParallelConfiguration(ParallelMode.SEMI_AUTO_PARALLEL, device_num=2)


class Network(nn.Cell):
    def __init__(self, strategy=((1, 2), (2, 1))):
        super().__init__()
        self.weight = Parameter(W.copy(), "weight")
        self.product, self.square, self.mean = ops.MatMul().shard(strategy), ops.Square(), ops.ReduceMean()

    def construct(self, x):
        return self.mean(self.square(self.product(x, self.weight)))


def training():
    network = Network()
    return network, nn.TrainOneStepCell(network, nn.SGD(network.trainable_params(), 0.5)).set_train()


def by_hand() -> tuple[float, np.ndarray]:
    product = X @ W
    return float((product**2).mean()), W - 0.5 * X.T @ (2 * product / product.size)


@pytest.mark.parametrize("members", [(0, 2), (3, 1)])
def test_the_ranks_of_a_graph_may_be_any_and_several_graphs_run_beside_each_other(members) -> None:
    def job(communicator):
        own = members if communicator.rank in members else tuple(sorted({0, 1, 2, 3} - set(members)))
        network, step = training()
        configuration = replace(SEMI_AUTO, rank=communicator.rank)
        graph = step.sharded_graph(Tensor(X), configuration=configuration).graph
        sharded = place(graph, configuration, devices=DeviceMatrix((2,), ranks=own))
        local = local_graph(sharded, communicator.rank)
        compiled = bind(StagedGraph((sharded,)), local, configuration, communicator.group(own))
        ((loss,), box) = compiled.run([X]), network.weight.box
        return float(loss), network.weight.asnumpy().copy(), box

    wanted, weights = by_hand()
    for loss, found, box in run_world(4, job):
        np.testing.assert_allclose(loss, wanted, rtol=1e-12)
        np.testing.assert_allclose(found, weights[tuple(map(slice, box.start, box.stop))], rtol=1e-12)


def test_a_strategy_is_given_by_the_name_of_a_node_where_it_has_no_parameter() -> None:
    graph = Network().sharded_graph(Tensor(X), configuration=SEMI_AUTO).graph
    square = next(node for node in graph.nodes if node.operator.name == "Square")
    again = Network().sharded_graph(Tensor(X), configuration=SEMI_AUTO).graph
    assert [node.name for node in graph.nodes] == [node.name for node in again.nodes]
    named = replace(SEMI_AUTO, loaded_strategies=((square.name, ((1, 2),)),))
    assert place(graph, named).placements[square].inputs[0].cuts == (1, 2)
    assert place(graph, SEMI_AUTO).placements[square].inputs[0].cuts == (2, 1)


def test_one_graph_is_placed_by_every_legal_strategy_of_a_node_without_being_traced_again() -> None:
    graph = Network().sharded_graph(Tensor(X), configuration=SEMI_AUTO).graph
    product = next(node for node in graph.nodes if node.operator.name == "MatMul")
    program = Strategies.of(graph)
    found = []
    for strategy in legal_strategies(product.equation, 2):
        sharded = place(graph, SEMI_AUTO, program.with_inputs({product: strategy}))
        found.append((strategy, sharded.stored["weight"].cuts))
    # Rows of x, columns of the weights, what is summed, or nothing.
    assert found == [
        (((1, 1), (1, 1)), (1, 1)),
        (((1, 1), (1, 2)), (1, 2)),
        (((1, 2), (2, 1)), (2, 1)),
        (((2, 1), (1, 1)), (1, 1)),
    ]


@pytest.mark.parametrize(("shares", "stored"), [(True, (2, 6)), (False, (4, 6))])
def test_replicas_of_a_weight_store_a_shard_each_where_the_optimizer_is_parallel(shares, stored) -> None:
    configuration = replace(SEMI_AUTO, enable_parallel_optimizer=shares, optimizer_threshold=0)
    graph = Network(((2, 1), (1, 1))).sharded_graph(Tensor(X), configuration=configuration).graph
    sharded = place(graph, configuration)
    assert [sharded.stored["weight"].box(rank).shape for rank in range(2)] == [stored] * 2
    assert sharded.used["weight"].box(0).shape == (4, 6)


def test_a_graph_of_tensors_that_no_host_has_room_for_is_made_and_its_constants_cut() -> None:
    """The gradient of a dropout's mask is zero; the part of 4 TB of them that one rank needs is a few elements."""

    class Dropped(nn.Cell):
        def __init__(self):
            super().__init__()
            self.weight = Parameter(np.ones((1,), np.float32), "weight")
            self.mul, self.mean = ops.Mul().shard(((1 << 20, 1), (1,))), ops.ReduceMean().shard(((1 << 20, 1),))
            self.dropout = nn.Dropout(p=0.5)
            self.dropout.dropout.shard(((1 << 20, 1),))

        def construct(self, x):
            return self.mean(self.dropout(self.mul(x, self.weight)))

    configuration = replace(SEMI_AUTO, device_num=1 << 20)
    network = Dropped()
    step = nn.TrainOneStepCell(network, nn.SGD(network.trainable_params(), 0.5)).set_train()
    x = Tensor(np.broadcast_to(np.float32(1), (1 << 20, 1 << 20)))
    sharded = step.sharded_graph(x, configuration=configuration)
    local = localise(sharded, 5).graph
    constants = [value for node in local.nodes for value in node.inputs if value.constant is not None]
    assert sum(value.spec.byte_count for value in constants) < 64 * 2**20


def other_layouts(network):
    network.shard(((2, 1),))


def other_strategy(network):
    network.product.shard(((2, 1), (1, 1)))


def other_cell(network):
    network.last = nn.Sigmoid()


def other_parameter(network):
    network.weight = Parameter(W * 2, "weight")


def other_operator(network):
    network.product = ops.MatMul().shard(((2, 1), (1, 1)))


def other_number(network):
    network.factor = 3.0


@pytest.mark.parametrize(
    "change", [other_layouts, other_strategy, other_cell, other_parameter, other_operator, other_number]
)
def test_a_network_that_has_been_changed_is_traced_again(change) -> None:
    """What was traced is kept, but never for a network that would give another graph now."""

    class Changing(Network):
        def __init__(self):
            super().__init__()
            self.last, self.factor = nn.ReLU(), 2.0

        def construct(self, x):
            return self.last(super().construct(x)) * self.factor

    network = Changing()
    before = network.sharded_graph(Tensor(X), configuration=SEMI_AUTO)
    assert network.sharded_graph(Tensor(X), configuration=SEMI_AUTO).graph is before.graph
    change(network)
    after = network.sharded_graph(Tensor(X), configuration=SEMI_AUTO)
    assert after.graph is not before.graph
    assert after.graph.parameters["weight"].parameter is network.weight


def test_a_number_of_a_rank_that_no_rank_has_is_refused() -> None:
    def job(_communicator) -> None:
        set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, global_rank=5)
        Network()(Tensor(X))

    with pytest.raises(ConfigurationError, match="global_rank 5 is not among ranks 0 to 1; leave global_rank to the"):
        run_world(2, job)
