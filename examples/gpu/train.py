"""Train on the GPU if each rank has one, else on the processor, and go on with the other.

mpiparallel run -n 2 train.py --epochs 3
mpiparallel run -n 1 train.py --epochs 6 --device CPU
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
from mpiparallel.errors import ConfigurationError


class Losses(ms.Callback):
    """Keep the loss of each step."""

    def __init__(self):
        self.steps, self.losses = [], []

    def step_end(self, run_context):
        told = run_context.original_args()
        self.steps.append(told.cur_step_num)
        self.losses.append(float(told.net_outputs.asnumpy()))


def take(device):
    """Let the ranks compute on this device and return it; "any" is a GPU, if there is one."""
    try:
        ms.set_context(device_target="GPU" if device == "any" else device)
    except ConfigurationError:
        if device != "any":
            raise
        ms.set_context(device_target="CPU")
    return ms.get_context("device_target")


def rings(count):
    """Return points, and which of three rings each is in."""
    x = np.random.default_rng(0).uniform(-1, 1, (count, 2)).astype(np.float32)
    label = np.digitize(np.hypot(*x.T), (0.4, 0.8)).astype(np.int32)
    return NumpySlicesDataset((x, label), ["x", "label"], shuffle=False).batch(64)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3, help="in all, those of an earlier job included")
    parser.add_argument("--device", choices=("any", "CPU", "GPU"), default="any")
    arguments = parser.parse_args()
    init()
    ms.set_seed(1)
    device = take(arguments.device)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = nn.SequentialCell(nn.Dense(2, 64), nn.GELU(), nn.Dense(64, 3))
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    model = ms.Model(network, loss, nn.Adam(network.trainable_params(), 0.02))
    data, losses = rings(1024), Losses()
    print("resumed from", model.resume("checkpoints", data))
    saver = ms.ModelCheckpoint("rings", "checkpoints", ms.CheckpointConfig(save_checkpoint_steps=16))
    model.train(arguments.epochs, data, [losses, saver], dataset_sink_mode=False)
    print("losses on", device, "from", losses.losses[0], "to", losses.losses[-1])
    if get_rank() == 0:
        line = f"{get_group_size()} ranks with a {device}" if get_group_size() > 1 else f"1 rank with a {device}"
        curve = {"x": "step", "y": "loss", "lines": {line: [losses.steps, losses.losses]}}
        Path(f"{get_group_size()}_ranks.result.json").write_text(json.dumps(curve))


if __name__ == "__main__":
    main()
