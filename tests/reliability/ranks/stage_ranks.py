"""Ranks in stages of a pipeline that train a small network to its end, from where the newest checkpoint stands.

``notes folder sleeper``: each rank logs the loss of each step, to the bit, and at the end leaves all that it holds. A
rank ``sleeper`` falls asleep in an operator of the last stage, in step ``NAP_STEP``, for micro-batch ``NAP_PIECE``.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import mpiparallel as ms
from mpiparallel import Model, nn, ops
from mpiparallel.communication import get_rank, init
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from mpiparallel.train.persistence.state import state_of
from tests.reliability.mpi_job import announce
from tests.reliability.ranks.training_ranks import Losses

RANKS, STAGES, MICRO_BATCHES = 4, 2, 4
EPOCHS, ROWS, BATCH = 3, 48, 8
STEPS = EPOCHS * ROWS // BATCH
NAP_STEP, NAP_PIECE = 2, 2
_LONG = 3600.0


class Sleeper(ops.MatMul):
    """A product in which a rank falls asleep, once, where ``is_here``; all micro-batches share the ``calls``."""

    is_here = False
    calls = itertools.count()

    def kernel(self, runtime: Any, inputs: Any, outputs: Any) -> Any:
        product = super().kernel(runtime, inputs, outputs)

        def run() -> None:
            if next(self.calls) == (NAP_STEP - 1) * MICRO_BATCHES + NAP_PIECE and self.is_here:
                time.sleep(_LONG)
            product()

        return run


class Last(nn.Cell):
    """The last layer."""

    def __init__(self, sleeper: bool) -> None:
        super().__init__()
        self.weight = ms.Parameter(ms.initializer("normal", [10, 3]), name="weight")
        self.matmul = Sleeper()
        # Not those of its gradient, which is made of the same class.
        self.matmul.is_here, self.matmul.calls = sleeper, itertools.count()

    def construct(self, x: Any) -> Any:
        return self.matmul(x, self.weight)


def prepared(sleeper: int) -> tuple[Model, Any]:
    """Return a model whose network is in two stages, in each of which a batch is cut over its ranks, and its data."""
    ms.set_seed(5)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, pipeline_stages=STAGES)
    first = nn.SequentialCell(nn.Dense(6, 10), nn.Dropout(p=0.25), nn.ReLU())
    second = nn.SequentialCell(nn.Dense(10, 10), nn.ReLU(), Last(get_rank() == sleeper))
    first.pipeline_stage, second.pipeline_stage = 0, 1
    trained = nn.PipelineCell(nn.WithLossCell(nn.SequentialCell(first, second), nn.MSELoss()), MICRO_BATCHES)
    rates = nn.exponential_decay_lr(0.01, 0.9, STEPS, STEPS // EPOCHS, 1)
    rows = np.random.default_rng(5)
    columns = rows.standard_normal((ROWS, 6)).astype("f4"), rows.standard_normal((ROWS, 3)).astype("f4")
    data = NumpySlicesDataset(columns, ["x", "y"], shuffle=True).batch(BATCH)
    return Model(trained, None, nn.Adam(trained.trainable_params(), rates)), data


def main() -> None:
    notes, folder = Path(sys.argv[1]), Path(sys.argv[2])
    announce(notes)
    init()
    model, data = prepared(int(sys.argv[3]) if sys.argv[3:] else -1)
    staged = model.build(data)
    assert staged is not None
    model.resume(folder, data)
    config = CheckpointConfig(save_checkpoint_steps=2, keep_checkpoint_max=3)
    callbacks = [Losses(notes / f"losses_{get_rank()}"), ModelCheckpoint("net", str(folder), config)]
    model.train(EPOCHS, data, callbacks, dataset_sink_mode=False)
    arrays, _ = state_of(staged)
    np.savez(notes / f"state_{get_rank()}.npz", **arrays)


if __name__ == "__main__":
    main()
