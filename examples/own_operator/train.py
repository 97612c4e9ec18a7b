"""Write an operator of NumPy functions with its sharding rule, check it, and train with it.

mpiparallel run -n 4 train.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.communication import get_group_size, get_rank, init
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.testing import check_gradient, check_strategies


def softsign(x):
    return x / (1 + np.abs(x))


def gradient(x, out, dout):
    """The derivative is (1 - |out|) squared; gradients are made of operators, so that they are cut as well."""
    return dout * ops.square(1 - ops.abs(out))


def make():
    return ops.Custom(softsign, bprop=gradient, equation="ab->ab")  # both dims may be cut


class Network(nn.Cell):
    """Two products with the new operator between them, which is cut as the first product's result is."""

    def __init__(self, batch, units):
        super().__init__()
        self.first, self.second = nn.Dense(4, 16), nn.Dense(16, 1)
        self.softsign = make().shard(((batch, units),))
        self.first.matmul.shard(((batch, 1), (units, 1)))
        self.second.matmul.shard(((batch, units), (1, units)))

    def construct(self, x):
        return self.second(self.softsign(self.first(x)))


def main():
    init()
    x = np.linspace(-4, 4, 24).reshape(6, 4)
    if get_rank() == 0:  # these ranks are threads of this process
        check_gradient(make(), x + 0.1)
        check_strategies(make(), x)
    ms.set_seed(1)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = Network(*{1: (1, 1), 2: (1, 2), 4: (2, 2)}[get_group_size()])
    rows = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    data = NumpySlicesDataset((rows, rows.max(1, keepdims=True)), ["x", "y"], shuffle=False).batch(16)
    model = ms.Model(network, nn.MSELoss(), nn.Adam(network.trainable_params(), 0.03))
    model.train(5, data, [ms.LossMonitor(4)])
    slope = ms.grad(lambda value: ops.reduce_sum(make()(value)))(ms.Tensor(x)).asnumpy()
    if get_rank() == 0:
        lines = {"softsign": softsign(x), "its gradient": slope}
        drawn = {name: [x.ravel().tolist(), values.ravel().tolist()] for name, values in lines.items()}
        Path("softsign.result.json").write_text(json.dumps({"x": "x", "y": "", "lines": drawn}))


if __name__ == "__main__":
    main()
