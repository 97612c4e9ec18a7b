"""A network with a layer of each kind that strategy files name by another operator than its own."""

from __future__ import annotations

import numpy as np

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.graph.parameter import Parameter

CHANNELS = ((2, 4, 1, 1), (4,), (4,), (4,), (4,))
# What MindSpore's planner says of this network: its layers call BiasAdd, BatchNorm and, on a list, MakeTuple.
WRITTEN = {
    "Conv2D_conv.weight": ((2, 1, 1, 1), (4, 1, 1, 1)),
    "BiasAdd_conv.bias": ((2, 4, 1, 1), (4,)),
    "BatchNorm_norm.gamma": CHANNELS,
    "MatMul_dense.weight": ((2, 1), (4, 1)),
    "BiasAdd_dense.bias": ((2, 4), (4,)),
    "MakeTuple_more": ((1, 8), (1, 8)),
    "Mul_late": ((2, 4), (2, 4)),
}


class Network(nn.Cell):
    """A layer of each kind; ``late`` is cast before it is used."""

    def __init__(self, cut):
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3, has_bias=True)
        self.norm = nn.BatchNorm2d(8)
        self.dense = nn.Dense(8, 8)
        self.more, self.late = Parameter(np.ones((8, 8), np.float32), "more"), Parameter(np.ones((16, 8)), "late")
        self.fixed = Parameter(np.ones((8, 8), np.float32), "fixed", requires_grad=False)
        self.concat, self.mul, self.pool = ops.Concat(0), ops.Mul(), ops.ReduceMean()
        if cut:
            places = (
                self.conv.conv2d,
                self.conv.bias_add,
                self.norm.bn_train,
                self.dense.matmul,
                self.dense.bias_add,
                self.concat,
                self.mul,
            )
            for operator, strategy in zip(places, WRITTEN.values(), strict=True):
                operator.shard(strategy)

    def construct(self, x):
        y = self.dense(self.pool(self.norm(self.conv(x)), (2, 3)))
        rows = self.concat((self.fixed, self.more))
        return (self.mul(y, ops.cast(self.late, ms.float32)) * rows).sum()


def build(network, **settings):
    ms.reset_auto_parallel_context()
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel", device_num=8, global_rank=0, full_batch=True, **settings
    )
    dataset = NumpySlicesDataset(np.zeros((16, 4, 6, 6), np.float32), ["x"], shuffle=False).batch(16)
    staged = ms.Model(network, optimizer=nn.Momentum(network.trainable_params(), 0.1, 0.9)).build(dataset)
    assert staged is not None
    return staged.of_rank(0)
