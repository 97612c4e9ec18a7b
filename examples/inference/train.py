"""Learn a sine on 4 ranks, and save the slices of each; predict.py then needs fewer.

mpiparallel run -n 4 train.py
"""

from __future__ import annotations

import numpy as np

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.communication import init
from mpiparallel.dataset import NumpySlicesDataset


class Sine(nn.Cell):
    """A number in, its sine out: 32 hidden units in ``units`` parts, numbers in ``batch`` parts."""

    def __init__(self, batch, units):
        super().__init__()
        self.first, self.second = nn.Dense(1, 32, activation="tanh"), nn.Dense(32, 1)
        self.first.matmul.shard(((batch, 1), (units, 1)))
        self.second.matmul.shard(((batch, units), (1, units)))

    def construct(self, x):
        return self.second(self.first(x))


def main():
    init()
    ms.set_seed(1)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = Sine(batch=1, units=4)
    x = np.linspace(-3, 3, 1024, dtype=np.float32)[:, None]
    data = NumpySlicesDataset((x, np.sin(x)), ["x", "y"], shuffle=True).batch(64)
    model = ms.Model(network, nn.MSELoss(), nn.Adam(network.trainable_params(), 0.02))
    saver = ms.ModelCheckpoint("sine", "checkpoints", ms.CheckpointConfig(save_checkpoint_steps=640))
    model.train(40, data, [ms.LossMonitor(160), saver])


if __name__ == "__main__":
    main()
