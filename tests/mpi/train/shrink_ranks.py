"""Ranks that train while some of them die, at the collectives that ``MPIPARALLEL_CHAOS`` names: ``kind notes folder``.

Each rank adds step and loss, and when it had them, to a file of its own in ``notes``.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import mpiparallel as ms
from mpiparallel import Model, nn, ops
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train import Callback, CheckpointConfig, ModelCheckpoint

EPOCHS = 3
ROWS = 420
BATCH = 42
KINDS = ("replicas", "own_batches", "shards", "cut")


class Network(nn.Cell):
    """Two products with dropout between them; ``cut`` cuts them in two, so that 8, 6 and 4 ranks can have it."""

    def __init__(self, cut: bool) -> None:
        super().__init__()
        self.w1 = ms.Parameter(ms.initializer("normal", [16, 40], "float64"), name="w1")
        self.w2 = ms.Parameter(ms.initializer("normal", [40, 5], "float64"), name="w2")
        self.first, self.second = ops.MatMul(), ops.MatMul()
        if cut:
            self.first.shard(((1, 1), (1, 2)))
            self.second.shard(((1, 2), (2, 1)))
        self.relu = ops.ReLU()
        self.dropout = nn.Dropout(p=0.25)

    def construct(self, x: Any) -> Any:
        return self.second(self.dropout(self.relu(self.first(x, self.w1))), self.w2)


class Losses(Callback):
    """Adds step, loss and time to a file of this rank."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def every_step(self, run_context: Any) -> None:
        parameters = run_context.original_args()
        loss = float(np.asarray(parameters.net_outputs.asnumpy()))
        with self._path.open("a") as file:
            file.write(f"{parameters.cur_step_num} {loss!r} {time.time()!r}\n")


def train(kind: str, callbacks: list[Any]) -> Model:
    """Train to the end, and return the model."""
    ms.set_seed(7)
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=True,
        enable_parallel_optimizer=kind == "shards",
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
    )
    rows = np.random.default_rng(7)
    columns = rows.standard_normal((ROWS, 16)), rows.standard_normal((ROWS, 5))
    data = NumpySlicesDataset(columns, ["x", "y"], shuffle=True).batch(BATCH)
    network = Network(kind == "cut")
    rates = nn.exponential_decay_lr(0.01, 0.9, EPOCHS * ROWS // BATCH, ROWS // BATCH, 1)
    model = Model(network, nn.MSELoss(), nn.Adam(network.trainable_params(), rates))
    model.train(EPOCHS, data, callbacks, dataset_sink_mode=False)
    return model


def main() -> None:
    from mpiparallel.communication import get_group_size, get_rank, init

    init()
    kind, notes = sys.argv[1], Path(sys.argv[2])
    number = get_rank()
    callbacks: list[Any] = [Losses(notes / f"losses_{number}")]
    if len(sys.argv) > 3:
        config = CheckpointConfig(save_checkpoint_steps=4, keep_checkpoint_max=2)
        callbacks.append(ModelCheckpoint("net", sys.argv[3], config))
    model = train(kind, callbacks)
    sys.stdout.write(f"number {number} ends as rank {get_rank()} of {get_group_size()} after {model.step} steps.\n")


if __name__ == "__main__":
    main()
