"""A quick training of a product of matrices with dropout, and what its tests compare and call in the midst of it."""

from __future__ import annotations

import numpy as np

import mpiparallel.ops as ops
from mpiparallel import Model, Parameter, context, nn
from mpiparallel.communication import get_group_size, get_rank
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train import (
    Callback,
)
from tests.conformance.trainings.moving_training import Losses

SEMI_AUTO = {"parallel_mode": "semi_auto_parallel", "full_batch": True}
DATA_PARALLEL = {"parallel_mode": "data_parallel", "gradients_mean": True}


class Product(nn.Cell):
    def __init__(self, strategy=None):
        super().__init__()
        random = np.random.default_rng(2)
        self.weight = Parameter(random.normal(size=(6, 12)), "weight")
        self.scale = Parameter(random.normal(size=12), "scale")
        self.first, self.second, self.mean = ops.MatMul(), ops.Mul(), ops.ReduceMean()
        self.dropout = nn.Dropout(p=0.2)
        if strategy:
            self.first.shard(strategy)

    def construct(self, x, y):
        return self.mean((self.dropout(self.second(self.first(x, self.weight), self.scale)) - y) ** 2)


def rows(**shards):
    random = np.random.default_rng(4)
    data = random.normal(size=(48, 6)), random.normal(size=(48, 12))
    batch = 12 // shards.get("num_shards", 1)
    return NumpySlicesDataset(data, ["x", "y"], shuffle=True, **shards).batch(batch)


def make_model(strategy=None, settings=SEMI_AUTO, **options):
    context.set_auto_parallel_context(**settings)
    network = Product(strategy)
    return Model(network, optimizer=nn.Momentum(network.trainable_params(), 0.1, 0.9), **options)


class At(Callback):
    """Does something at a moment of a step."""

    def __init__(self, step, action, moment="step_end"):
        self.step, self.action, self.moment = step, action, moment
        setattr(self, moment, self.act)

    def act(self, run_context):
        if run_context.original_args().cur_step_num == self.step:
            self.action()


def alone(strategy=None, **options):
    model, losses = make_model(strategy, **options), Losses()
    model.train(3, rows(), losses, dataset_sink_mode=False)
    return losses.by_step


def compare(found, wanted):
    assert sorted(found) == sorted(wanted)
    np.testing.assert_allclose([found[one] for one in wanted], list(wanted.values()), rtol=1e-9)


def shard_rows():
    return rows(num_shards=get_group_size(), shard_id=get_rank())


class Normed(nn.Cell):
    """A network with moving averages, which depend on each rank's own batch, and weights of each rank alone."""

    def __init__(self, alone=False):
        super().__init__()
        self.norm = nn.BatchNorm2d(6)
        self.weight = Parameter(np.ones((6, 12), np.float32), "weight", layerwise_parallel=alone)
        self.product, self.mean = ops.MatMul(), ops.ReduceMean()

    def construct(self, x, y):
        normed = self.norm(x.reshape((-1, 6, 1, 1))).reshape((-1, 6))
        return self.mean((self.product(normed, self.weight) - y) ** 2)


def normed_model(alone=False, settings=DATA_PARALLEL):
    context.set_auto_parallel_context(**settings)
    network = Normed(alone)
    return Model(network, optimizer=nn.Momentum(network.trainable_params(), 0.1, 0.9))


def small_rows():
    random = np.random.default_rng(get_rank())
    data = random.normal(size=(24, 6)).astype(np.float32), random.normal(size=(24, 12)).astype(np.float32)
    return NumpySlicesDataset(data, ["x", "y"], shuffle=False).batch(6)
