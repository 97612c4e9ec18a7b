"""With the parallel optimizer a gradient goes to the shards at once, whatever is done to it before the update."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication.threads import run_world
from mpiparallel.compile.rank_graph import local_graph
from mpiparallel.errors import ConfigurationError

RANDOM = np.random.default_rng(1)
X, Y = RANDOM.normal(size=(8, 6)), RANDOM.normal(size=(8, 12))
WEIGHT = RANDOM.normal(size=(12, 6))
OPTIMIZERS = {
    "momentum": lambda weights: nn.Momentum(weights, 0.1, 0.9, 0.01),
    "momentum, scaled loss": lambda weights: nn.Momentum(weights, 0.1, 0.9, 0.01, loss_scale=4.0),
    "sgd": lambda weights: nn.SGD(weights, 0.1, 0.9, weight_decay=0.01),
    "adam": lambda weights: nn.Adam(weights, 1e-2, weight_decay=0.1),
    "adam, decay of its own": lambda weights: nn.AdamWeightDecay(weights, 1e-2, weight_decay=0.1),
    "groups": lambda weights: nn.Momentum(
        [{"params": weights[:1], "weight_decay": 0.1, "grad_centralization": False}, {"params": weights[1:]}], 0.1, 0.9
    ),
}


class Clipping(nn.TrainOneStepCell):
    def prepared(self, gradients):
        return ops.clip_by_global_norm(gradients, 0.1)


def make_step(optimizer, cell, cut):
    dense = nn.Dense(6, 12, ms.Tensor(WEIGHT), dtype=np.float64)
    if cut:
        dense.matmul.shard(((2, 1), (2, 1)))
        dense.bias_add.shard(((2, 2), (2,)))
    network = nn.SequentialCell(dense)
    made = OPTIMIZERS[optimizer](network.trainable_params())
    return cell(nn.WithLossCell(network, nn.MSELoss()), made, made.loss_scale)


def train(communicator, optimizer, cell, cut):
    if communicator.size > 1:
        ms.set_auto_parallel_context(
            parallel_mode="semi_auto_parallel",
            full_batch=True,
            enable_parallel_optimizer=True,
            parallel_optimizer_config={"parallel_optimizer_threshold": 0},
        )
    step = make_step(optimizer, cell, cut)
    for _ in range(3):
        step(ms.Tensor(X), ms.Tensor(Y))
    found = {one.name: (one.asnumpy().copy(), one.box) for one in step.get_parameters()}
    graph = local_graph(step.sharded_graph(X, Y), communicator.rank)
    summed = Counter()
    for node in graph.nodes:
        if node.operator.kind == "communication":
            summed.update((node.operator.name, value.spec.shape) for value in node.inputs)
    return found, summed


@pytest.mark.parametrize("cell", [nn.TrainOneStepCell, Clipping])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("cut", [False, True])
def test_gradients_are_scattered_and_weights_are_those_of_one_rank(optimizer, cell, cut) -> None:
    ((wanted, _),) = run_world(1, train, optimizer, cell, False)
    for found, summed in run_world(4, train, optimizer, cell, cut):
        rows = 6 if cut else 12
        reductions = {(name, shape) for name, shape in summed if "Reduce" in name and shape[:1] == (rows,)}
        assert reductions == {("ReduceScatterBlocks", (rows, 6)), ("ReduceScatterBlocks", (rows,))}
        for name, (whole, all_of_it) in wanted.items():
            array, box = found[name]
            part = whole[box.within(all_of_it)] if whole.ndim else whole
            np.testing.assert_allclose(array, part, rtol=1e-12, atol=1e-14, err_msg=name)


def test_centred_gradients_are_refused_with_where_to_centre_them() -> None:
    weights = nn.Dense(2, 2).trainable_params()
    with pytest.raises(ConfigurationError, match="grad_centralization=True, which is not implemented; leave it out"):
        nn.SGD([{"params": weights, "grad_centralization": True}])
