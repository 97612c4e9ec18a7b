"""Train an MLP on 4 ranks, dp2 x mp2, evaluate it, save it, and go on with fewer ranks.

mpiparallel run -n 4 train.py --epochs 4
mpiparallel run -n 2 train.py --epochs 8
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.communication import get_group_size, get_rank, init
from mpiparallel.dataset import NumpySlicesDataset

CUTS = {1: (1, 1), 2: (1, 2), 4: (2, 2)}  # by the number of ranks: parts of the batch, parts of the weights


class Perceptron(nn.Cell):
    """Two numbers, 32 hidden units, two classes."""

    def __init__(self, batch, units):
        super().__init__()
        self.first, self.relu, self.second = nn.Dense(2, 32), nn.ReLU(), nn.Dense(32, 2)
        self.first.matmul.shard(((batch, 1), (units, 1)))  # the weight of Dense is (outputs, inputs)
        self.second.matmul.shard(((batch, units), (1, units)))

    def construct(self, x):
        return self.second(self.relu(self.first(x)))


class Losses(ms.Callback):
    """Keep the loss of each step."""

    def __init__(self):
        self.steps, self.losses = [], []

    def step_end(self, run_context):
        told = run_context.original_args()
        self.steps.append(told.cur_step_num)
        self.losses.append(float(told.net_outputs.asnumpy()))


def quadrants(seed, count):
    """Return points, and whether the signs of their numbers are equal."""
    x = np.random.default_rng(seed).uniform(-1, 1, (count, 2)).astype(np.float32)
    return NumpySlicesDataset((x, (x.prod(1) > 0).astype(np.int32)), ["x", "label"], shuffle=True).batch(64)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4, help="in all, those of an earlier job included")
    epochs = parser.parse_args().epochs
    init()
    ms.set_seed(1)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    ranks = get_group_size()
    network = Perceptron(*CUTS[ranks])
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    model = ms.Model(network, loss, nn.Adam(network.trainable_params(), 0.02), metrics={"accuracy"})
    data, losses = quadrants(0, 1024), Losses()
    print("resumed from", model.resume("checkpoints", data))
    saver = ms.ModelCheckpoint("mlp", "checkpoints", ms.CheckpointConfig(save_checkpoint_steps=16))
    model.train(epochs, data, [losses, saver], dataset_sink_mode=False)
    print("losses from", losses.losses[0], "to", losses.losses[-1])
    print("unseen points:", model.eval(quadrants(1, 512)))
    if get_rank() == 0:
        curve = {"x": "step", "y": "loss", "lines": {f"{ranks} ranks": [losses.steps, losses.losses]}}
        Path(f"{ranks}_ranks.result.json").write_text(json.dumps(curve))


if __name__ == "__main__":
    main()
