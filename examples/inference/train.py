"""Learn a sine on 4 ranks, and save the slices of each; predict.py then needs fewer.

mpiparallel run -n 4 train.py
"""

from __future__ import annotations

import numpy as np
from sine import Sine

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.communication import init
from mpiparallel.dataset import NumpySlicesDataset


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
