"""Train so that SLURM may take the nodes away at any time: save when told, and go on when started again.

sbatch job.sh    # made by: mpiparallel slurm make --requeue ... -o job.sh -- train.py
"""

from __future__ import annotations

import argparse
import json
import os
import signal
from pathlib import Path

import numpy as np

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.communication import get_rank, init
from mpiparallel.dataset import NumpySlicesDataset


class Losses(ms.Callback):
    """Keep the loss of each step; play SLURM's warning after one of them."""

    def __init__(self, warned_at):
        self.warned_at, self.steps, self.losses = warned_at, [], []

    def step_end(self, run_context):
        told = run_context.original_args()
        self.steps.append(told.cur_step_num)
        self.losses.append(float(told.net_outputs.asnumpy()))
        if self.warned_at == told.cur_step_num and get_rank() == 0:
            os.kill(os.getpid(), signal.SIGUSR1)

    def write(self, name):
        lines = {name: [self.steps, self.losses]}
        Path(f"{name.replace(' ', '_')}.result.json").write_text(json.dumps({"x": "step", "y": "loss", "lines": lines}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warned_at", type=int, help="send SIGUSR1 after this step, as SLURM would")
    losses = Losses(parser.parse_args().warned_at)
    init()
    ms.set_seed(1)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    network = nn.SequentialCell(nn.Dense(8, 32, activation="relu"), nn.Dense(32, 1))
    model = ms.Model(network, nn.MSELoss(), nn.Adam(network.trainable_params(), 0.01))
    x = np.random.default_rng(0).normal(size=(256, 8)).astype(np.float32)
    data = NumpySlicesDataset((x, np.abs(x).sum(1, keepdims=True)), ["x", "y"], shuffle=True).batch(32)
    found = model.resume("checkpoints", data)
    saver = ms.ModelCheckpoint("net", "checkpoints", ms.CheckpointConfig(save_checkpoint_steps=1000))
    try:
        model.train(4, data, [losses, saver], dataset_sink_mode=False)
    finally:  # also where Preempted, a SystemExit with code 85, ends the training
        if get_rank() == 0:
            losses.write("second start" if found else "first start")


if __name__ == "__main__":
    main()
