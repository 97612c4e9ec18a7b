"""Data and hybrid parallel mode: a batch for each rank, gradients summed or averaged, nothing written by hand."""

from __future__ import annotations

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.graph.parameter import Parameter

RANKS = 3
X = np.random.default_rng(0).normal(size=(4, 12, 5)).astype(np.float64)
Y = np.random.default_rng(1).normal(size=(4, 12, 2)).astype(np.float64)


def set_mode(mode="data_parallel", **settings):
    ms.reset_auto_parallel_context()
    ms.set_seed(4)
    ms.set_auto_parallel_context(parallel_mode=mode, **settings)


def make_step(make_optimizer):
    network = nn.Dense(5, 2, weight_init=0.2, dtype=ms.float64)
    optimizer = make_optimizer(network.trainable_params())
    return nn.TrainOneStepCell(nn.WithLossCell(network, nn.MSELoss()), optimizer).set_train()


OPTIMIZERS = {
    "Momentum with decay": lambda params: nn.Momentum(params, 0.1, 0.9, weight_decay=0.1),
    "Adam with decay": lambda params: nn.Adam(params, 0.05, weight_decay=0.2),
    "AdamWeightDecay": lambda params: nn.AdamWeightDecay(params, 0.05, weight_decay=0.2),
}


def train_data_parallel(communicator, make_optimizer, mean):
    set_mode(gradients_mean=mean)
    step = make_step(make_optimizer)
    rows = np.array_split(np.arange(12), communicator.size)[communicator.rank]
    losses = [float(step(ms.Tensor(x[rows]), ms.Tensor(y[rows]))) for x, y in zip(X, Y, strict=True)]
    return losses, {one.name: one.asnumpy().copy() for one in step.get_parameters()}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_with_the_mean_of_gradients_weights_are_those_of_one_rank_on_all_rows(optimizer) -> None:
    ((whole, wanted),) = run_world(1, train_data_parallel, OPTIMIZERS[optimizer], True)
    found = run_world(RANKS, train_data_parallel, OPTIMIZERS[optimizer], True)
    for _, weights in found:
        for name, value in wanted.items():
            np.testing.assert_allclose(weights[name], value, rtol=1e-12, atol=1e-14, err_msg=name)
    losses = np.array([own for own, _ in found])
    assert len(set(losses[:, 0])) == RANKS, "each rank reports the loss of its own batch"
    np.testing.assert_allclose(losses.mean(0), whole, rtol=1e-12)


def test_without_the_mean_gradients_are_summed() -> None:
    ((_, wanted),) = run_world(1, train_data_parallel, lambda params: nn.SGD(params, 0.75), False)
    for _, weights in run_world(RANKS, train_data_parallel, lambda params: nn.SGD(params, 0.25), False):
        np.testing.assert_allclose(weights["weight"], wanted["weight"], rtol=1e-12)


def test_gradients_that_leave_a_traced_function_are_summed_over_the_ranks() -> None:
    def on_rank(communicator):
        set_mode()
        weight = Parameter(np.ones(3), "w")
        own = ms.Tensor(np.full(3, communicator.rank + 1.0))
        value, gradient = ops.value_and_grad(lambda x: (x * weight).sum(), None, weight)(own)
        optimizer = nn.SGD([weight], 1.0)
        optimizer((gradient,))
        return float(value), gradient.asnumpy().tolist(), weight.asnumpy().tolist()

    found = run_world(RANKS, on_rank)
    assert [value for value, _, _ in found] == [3.0, 6.0, 9.0]
    assert [gradient for _, gradient, _ in found] == [[6.0] * 3] * RANKS
    assert [weight for _, _, weight in found] == [[-5.0] * 3] * RANKS


class HybridNet(nn.Cell):
    """The tutorial's: each rank has columns of the weight, and sums its part of each row by hand."""

    def __init__(self, weight):
        super().__init__()
        self.weight = Parameter(ms.Tensor(weight), layerwise_parallel=True)
        self.bias = Parameter(np.zeros(1), "bias")
        self.fc = ops.MatMul()
        self.reduce = ops.ReduceSum()
        self.allreduce = ops.AllReduce(op="sum")

    def construct(self, x):
        return self.allreduce(self.reduce(self.fc(x, self.weight), -1)) + self.bias


def test_layerwise_parallel_parameters_stay_each_ranks_own() -> None:
    whole = np.random.default_rng(3).normal(size=(5, 6))

    def on_rank(communicator):
        set_mode("hybrid_parallel")
        columns = np.split(whole, communicator.size, axis=1)[communicator.rank]
        network = HybridNet(columns)
        step = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 0.1, 0.9))
        graph = local_graph(step.sharded_graph(X[0]), communicator.rank)
        summed = [node.inputs[0].spec.shape for node in graph.nodes if node.operator.kind == "communication"]
        outputs = network(ms.Tensor(X[0])).asnumpy()
        gradient = ops.grad(lambda x: network(x).sum(), None, network.weight)(ms.Tensor(X[0]))
        return outputs, gradient.asnumpy(), summed

    for outputs, gradient, summed in run_world(RANKS, on_rank):
        np.testing.assert_allclose(outputs, (X[0] @ whole).sum(1), rtol=1e-12)
        # The adjoint of the hand-placed AllReduce sums the gradients of all ranks' outputs.
        np.testing.assert_allclose(gradient, RANKS * np.repeat(X[0].sum(0)[:, None], 2, axis=1), rtol=1e-12)
        assert summed == [(12,), (12,), (1,)], "forward, its adjoint, and the gradient of the shared bias"


def test_parameter_broadcast_gives_all_ranks_the_values_of_rank_0() -> None:
    def on_rank(communicator, broadcast):
        set_mode(parameter_broadcast=broadcast)
        network = nn.Dense(3, 2, weight_init=ms.Tensor(np.full((2, 3), float(communicator.rank))))
        network(ms.Tensor(np.ones((1, 3), np.float32)))
        return float(network.weight.asnumpy()[0, 0])

    assert run_world(RANKS, on_rank, True) == [0.0] * RANKS
    assert run_world(RANKS, on_rank, False) == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("shards", [-1, 2])
def test_parameter_broadcast_gives_shards_of_the_values_of_rank_0(shards) -> None:
    def on_rank(communicator):
        set_mode(
            parameter_broadcast=True,
            enable_parallel_optimizer=True,
            parallel_optimizer_config={"parallel_optimizer_threshold": 0},
            optimizer_weight_shard_size=shards,
        )
        values = np.arange(24.0).reshape(8, 3) + 100 * communicator.rank
        network = nn.Dense(3, 8, weight_init=ms.Tensor(values), dtype=ms.float64)
        network(ms.Tensor(np.ones((1, 3))))
        return network.weight.layout, network.weight.asnumpy().copy()

    for rank, (layout, part) in enumerate(run_world(4, on_rank)):
        assert layout.optimizer_axes
        own = slice(layout.box(rank).start[0], layout.box(rank).stop[0])
        np.testing.assert_array_equal(part, np.arange(24.0).reshape(8, 3)[own])


def test_each_rank_drops_other_elements() -> None:
    def on_rank(_communicator):
        set_mode()
        return nn.Dropout(0.5).set_train()(ms.Tensor(np.ones(200, np.float32))).asnumpy().tobytes()

    assert len(set(run_world(RANKS, on_rank))) == RANKS


class ClippedMomentum(nn.Momentum):
    """An optimizer before whose update something is done to all gradients together."""

    def construct(self, gradients):
        return super().construct(ops.clip_by_global_norm(gradients, 0.5))


def train_with_shards(communicator, make_optimizer, shards):
    set_mode(
        gradients_mean=True,
        enable_parallel_optimizer=shards != 1,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
        optimizer_weight_shard_size=shards,
    )
    network = nn.SequentialCell(
        [nn.Dense(5, 8, weight_init=0.2, dtype=ms.float64), nn.Dense(8, 2, weight_init=0.3, dtype=ms.float64)]
    )
    optimizer = make_optimizer(network.trainable_params())
    step = nn.TrainOneStepCell(nn.WithLossCell(network, nn.MSELoss()), optimizer).set_train()
    rows = np.array_split(np.arange(12), communicator.size)[communicator.rank]
    losses = [float(step(ms.Tensor(x[rows]), ms.Tensor(y[rows]))) for x, y in zip(X, Y, strict=True)]
    layouts = {one.name: (one.layout, one.array.copy()) for one in step.get_parameters()}
    sharded = step.sharded_graph(ms.Tensor(X[0][rows]), ms.Tensor(Y[0][rows]))
    names = [node.operator.name for node in local_graph(sharded, communicator.rank).nodes]
    return losses, layouts, names


@pytest.mark.parametrize("shards", [-1, 2])
@pytest.mark.parametrize("optimizer", [*OPTIMIZERS, "clipped"])
def test_the_parallel_optimizer_updates_shards_and_trains_to_the_same_weights(optimizer, shards) -> None:
    make = {**OPTIMIZERS, "clipped": lambda params: ClippedMomentum(params, 0.1, 0.9)}[optimizer]
    ((_, wanted, _),) = run_world(1, train_with_shards, make, 1)
    for rank, (_, found, names) in enumerate(run_world(4, train_with_shards, make, shards)):
        for name, (layout, part) in found.items():
            whole = wanted[name][1]
            own = tuple(map(slice, layout.box(rank).start, layout.box(rank).stop))
            np.testing.assert_allclose(part, whole[own], rtol=1e-12, atol=1e-14, err_msg=name)
        cut = {name for name, (layout, _) in found.items() if layout.optimizer_axes}
        assert {"0.weight", "moments.0.weight"} & cut or {"0.weight", "moment1.0.weight"} & cut
        assert "ReduceScatterBlocks" in names
        assert names.count("SliceBox") == 0, "no gradient is summed whole and then cut"
