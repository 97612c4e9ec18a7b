"""A quick training of one layer, and what its folder of checkpoints holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mpiparallel import Model, context, nn
from mpiparallel.checkpoint.catalogue import catalogue
from mpiparallel.communication import get_group_size
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train import Callback, ModelCheckpoint

RANKS = 4
CUT = ((2, 1), (2, 1))


def make_model(cut=None, width=6):
    context.set_seed(3)
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=True,
        enable_parallel_optimizer=True,
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
    )
    layer = nn.Dense(width, 4)
    layer.matmul.shard(cut or (CUT if get_group_size() == RANKS else ((1, 1), (1, 1))))
    return Model(layer, nn.MSELoss(), nn.Adam(layer.trainable_params(), 0.05))


def make_dataset(width=6):
    random = np.random.default_rng(1)
    data = random.normal(size=(24, width)).astype(np.float32), random.normal(size=(24, 4)).astype(np.float32)
    return NumpySlicesDataset(data, ["x", "y"], shuffle=True).batch(8)


def held_by(model):
    return {one.name: one.asnumpy().copy() for one in model.train_network.get_parameters()}


def train_and_save(communicator, folder, epochs, config, *callbacks):
    model = make_model()
    saver = ModelCheckpoint("dense", str(folder), config)
    model.train(epochs, make_dataset(), [saver, *callbacks], dataset_sink_mode=False)
    return saver.last_checkpoint, held_by(model)


def committed(folder):
    return sorted(entry.name for entry in catalogue(folder))


def shards(folder, rank):
    return sorted(path.name for path in (Path(folder) / f"rank_{rank}").glob("*.h5"))


class At(Callback):
    """Does something at the end of a step."""

    def __init__(self, step, action):
        self.step, self.action = step, action

    def step_end(self, run_context):
        if run_context.original_args().cur_step_num == self.step:
            self.action()
