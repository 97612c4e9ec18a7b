"""Train, be killed, start again from the last checkpoint, and end with the losses of a job that was never killed.

mpiparallel run -n 4 --on-failure restart:1 --chaos kill@1:120 train.py
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.communication import get_rank, init
from mpiparallel.dataset import NumpySlicesDataset


class Losses(ms.Callback):
    """Keep the loss of each step."""

    def __init__(self):
        self.steps, self.losses = [], []

    def step_end(self, run_context):
        told = run_context.original_args()
        self.steps.append(told.cur_step_num)
        self.losses.append(float(told.net_outputs.asnumpy()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoints", default="checkpoints", help="folder to save in, and to go on from")
    folder = parser.parse_args().checkpoints
    init()
    ms.set_seed(1)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = nn.SequentialCell(nn.Dense(8, 32, activation="relu"), nn.Dense(32, 1))
    network[0].matmul.shard(((2, 1), (2, 1)))  # each slice is on two ranks: either may be lost
    network[1].matmul.shard(((2, 2), (1, 2)))
    model = ms.Model(network, nn.MSELoss(), nn.Adam(network.trainable_params(), 0.01))
    x = np.random.default_rng(0).normal(size=(256, 8)).astype(np.float32)
    data = NumpySlicesDataset((x, np.abs(x).sum(1, keepdims=True)), ["x", "y"], shuffle=True).batch(32)
    losses = Losses()
    found = model.resume(folder, data)
    saver = ms.ModelCheckpoint("net", folder, ms.CheckpointConfig(save_checkpoint_steps=8))
    model.train(5, data, [losses, saver], dataset_sink_mode=False)
    print("from", found, "to loss", losses.losses[-1])
    if get_rank() == 0:
        name = "after the restart" if found else "never killed"
        result = {"x": "step", "y": "loss", "lines": {name: [losses.steps, losses.losses]}}
        Path(f"{folder}.result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
