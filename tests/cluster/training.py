"""A small training, cut over however many ranks there are, from the newest of its checkpoints.

Each rank prints what it is and where, and the loss of each step to the last bit; every other step is saved.
"""

from __future__ import annotations

import argparse
import os
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np

import mpiparallel as ms
from mpiparallel import Model, nn, ops
from mpiparallel.communication import get_group_size, get_rank, init
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from mpiparallel.train.callback import Callback

EPOCHS = 4
ROWS = 40
BATCH = 8


class Network(nn.Cell):
    """Two products: the batch cut ``dp`` ways, the hidden units ``mp`` ways."""

    def __init__(self, dp: int, mp: int) -> None:
        super().__init__()
        self.w1 = ms.Parameter(ms.initializer("normal", [12, 32], ms.float64), name="w1")
        self.w2 = ms.Parameter(ms.initializer("normal", [32, 4], ms.float64), name="w2")
        self.first = ops.MatMul().shard(((dp, 1), (1, mp)))
        self.relu = ops.ReLU().shard(((dp, mp),))
        self.second = ops.MatMul().shard(((dp, mp), (mp, 1)))

    def construct(self, x: Any) -> Any:
        return self.second(self.relu(self.first(x, self.w1)), self.w2)


class Told(Callback):
    """Prints each step's loss in full, after a pause that gives a test the time to do something."""

    def __init__(self, pause: float) -> None:
        self._pause = pause

    def step_end(self, run_context: Any) -> None:
        parameters = run_context.original_args()
        time.sleep(self._pause)
        print(f"step {parameters.cur_step_num} loss {float(parameters.net_outputs.asnumpy()).hex()}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoints", type=Path)
    parser.add_argument("--pause", type=float, default=0.0)
    arguments = parser.parse_args()
    init()
    print(f"rank {get_rank()} on {socket.gethostname()}: {os.environ.get('DATA_PATH')}", flush=True)
    ms.set_seed(7)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    rows = np.random.default_rng(7)
    columns = rows.standard_normal((ROWS, 12)), rows.standard_normal((ROWS, 4))
    data = NumpySlicesDataset(columns, ["x", "y"], shuffle=True).batch(BATCH)
    mp = 2 if get_group_size() % 2 == 0 else 1
    network = Network(get_group_size() // mp, mp)
    model = Model(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), 0.05, 0.9))
    model.build(data)
    model.resume(arguments.checkpoints, data)
    config = CheckpointConfig(save_checkpoint_steps=2, keep_checkpoint_max=3)
    callbacks = [Told(arguments.pause), ModelCheckpoint("net", str(arguments.checkpoints), config)]
    model.train(EPOCHS, data, callbacks, dataset_sink_mode=False)


if __name__ == "__main__":
    main()
