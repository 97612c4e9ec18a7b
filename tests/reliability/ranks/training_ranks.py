"""Ranks that train a small network to its end, from where the newest checkpoint stands: ``notes folder seed``.

Each rank logs the loss of each step, to the bit, and at the end leaves all parameters and moments it holds.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import mpiparallel as ms
from mpiparallel import Model, nn, ops
from mpiparallel.communication import get_rank, init
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from mpiparallel.train.callback import Callback
from mpiparallel.train.persistence.state import state_of
from tests.reliability.mpi_job import announce

EPOCHS = 6
ROWS = 90
BATCH = 10


class Network(nn.Cell):
    """Two products with dropout between them, the hidden units cut over both ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.w1 = ms.Parameter(ms.initializer("normal", [12, 34]), name="w1")
        self.w2 = ms.Parameter(ms.initializer("normal", [34, 5]), name="w2")
        self.first = ops.MatMul().shard(((1, 1), (1, 2)))
        self.relu = ops.ReLU().shard(((1, 2),))
        self.dropout = nn.Dropout(p=0.25)
        self.second = ops.MatMul().shard(((1, 2), (2, 1)))

    def construct(self, x: Any) -> Any:
        return self.second(self.dropout(self.relu(self.first(x, self.w1))), self.w2)


class Losses(Callback):
    """Adds step and loss to a file of this rank."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def step_end(self, run_context: Any) -> None:
        parameters = run_context.original_args()
        loss = np.asarray(parameters.net_outputs.asnumpy()).tobytes().hex()
        with self._path.open("a") as file:
            file.write(f"{parameters.cur_step_num} {loss}\n")


def main() -> None:
    notes, folder, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    announce(notes)
    init()
    ms.set_seed(seed)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    rows = np.random.default_rng(seed)
    columns = rows.standard_normal((ROWS, 12)).astype("f4"), rows.standard_normal((ROWS, 5)).astype("f4")
    data = NumpySlicesDataset(columns, ["x", "y"], shuffle=True).batch(BATCH)
    network = Network()
    rates = nn.exponential_decay_lr(0.01, 0.9, EPOCHS * ROWS // BATCH, ROWS // BATCH, 1)
    model = Model(network, nn.MSELoss(), nn.Adam(network.trainable_params(), rates))
    staged = model.build(data)
    assert staged is not None
    model.resume(folder, data)
    (notes / "going").touch()
    config = CheckpointConfig(save_checkpoint_steps=2, keep_checkpoint_max=3, async_save=seed % 2 == 0)
    callbacks = [Losses(notes / f"losses_{get_rank()}"), ModelCheckpoint("net", str(folder), config)]
    model.train(EPOCHS, data, callbacks, dataset_sink_mode=False)
    arrays, _ = state_of(staged)
    unfinished = notes / f"unfinished_{get_rank()}.npz"
    np.savez(unfinished, **arrays)
    unfinished.replace(notes / f"state_{get_rank()}.npz")


if __name__ == "__main__":
    main()
