"""Ranks that train while some of them die, at the collectives that ``MPIPARALLEL_CHAOS`` names: ``kind notes folder``.

``replicas`` hold all of the state each, ``pieces`` too, and are fed a piece of each batch; ``shards`` share the
optimizer's states; ``cut`` has matrices cut in two, ``fixed`` strategies for 8 ranks only, and ``stages`` is a pipeline
of two stages. Each rank adds step and loss, and when it had them, to a file of its own in ``notes``. With a ``folder``
they go on from what is there, and save.
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

EPOCHS = 4
ROWS = 448
BATCH = 56
STEPS = EPOCHS * ROWS // BATCH


class Network(nn.Cell):
    """Two products with dropout between them; ``cut`` cuts them in two, so that 8, 6 and 4 ranks can have it."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.w1 = ms.Parameter(ms.initializer("normal", [16, 40], "float64"), name="w1")
        self.w2 = ms.Parameter(ms.initializer("normal", [40, 5], "float64"), name="w2")
        self.first, self.second = ops.MatMul(), ops.MatMul()
        if kind == "cut":
            self.first.shard(((1, 1), (1, 2)))
            self.second.shard(((1, 2), (2, 1)))
        elif kind == "fixed":
            self.first.shard(((8, 1), (1, 1)))
        # It changes in the middle of a step, before ranks exchange gradients.
        self.age = ms.Parameter(np.ones(()), "age", requires_grad=False)
        self.relu = ops.ReLU()
        # Rows lie elsewhere in a batch of pieces, so they would get other masks.
        self.dropout = nn.Dropout(p=0.0 if kind == "pieces" else 0.25)

    def construct(self, x: Any) -> Any:
        age = self.age * 1.01
        ops.Assign()(self.age, age)
        return self.second(self.dropout(self.relu(self.first(x, self.w1))), self.w2) * age


class Product(nn.Cell):
    """A product with a weight, all in float64."""

    def __init__(self, columns: int, width: int) -> None:
        super().__init__()
        self.weight = ms.Parameter(ms.initializer("normal", [columns, width], "float64"), name="weight")
        self.matmul = ops.MatMul()

    def construct(self, x: Any) -> Any:
        return self.matmul(x, self.weight)


def staged(stages: int) -> nn.Cell:
    """Return a network with its loss in two stages, that takes four micro-batches."""
    network = nn.SequentialCell(Product(16, 40), nn.Dropout(p=0.25), nn.ReLU(), Product(40, 5))
    network[0].pipeline_stage, network[3].pipeline_stage = 0, 1
    ms.set_auto_parallel_context(pipeline_stages=stages)
    return nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), 4)


class Losses(Callback):
    """Adds step, loss and time to a file of this rank."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def every_step(self, run_context: Any) -> None:
        parameters = run_context.original_args()
        loss = float(np.asarray(parameters.net_outputs.asnumpy()))
        with self._path.open("a") as file:
            file.write(f"{parameters.cur_step_num} {loss!r} {time.time()!r}\n")

    def resharded(self, run_context: Any) -> None:
        """Say so where a survivor is taken for a rank that joins."""
        if run_context.original_args().joins:
            print("a survivor joins", flush=True)


def train(kind: str, callbacks: list[Any], folder: str | None = None, rank: int = 0, ranks: int = 1) -> Model:
    """Train to the end, and return the model."""
    ms.set_seed(7)
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=kind != "pieces",
        enable_parallel_optimizer=kind == "shards",
        parallel_optimizer_config={"parallel_optimizer_threshold": 0},
    )
    rows = np.random.default_rng(7)
    columns = rows.standard_normal((ROWS, 16)), rows.standard_normal((ROWS, 5))
    share = {"num_shards": ranks, "shard_id": rank} if kind == "pieces" else {}
    data = NumpySlicesDataset(columns, ["x", "y"], shuffle=True, **share)
    data = data.batch(BATCH // ranks if share else BATCH)
    network = staged(min(2, ranks)) if kind == "stages" else Network(kind)
    rates = nn.exponential_decay_lr(0.01, 0.9, STEPS, STEPS // EPOCHS, 1)
    model = Model(network, None if kind == "stages" else nn.MSELoss(), nn.Adam(network.trainable_params(), rates))
    if folder is not None:
        model.resume(folder, data)
    model.train(EPOCHS, data, callbacks, dataset_sink_mode=False)
    return model


def main() -> None:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpiparallel.communication import get_group_size, get_rank, init, world
    from tests.conformance.compile_counts import CompileCounts

    init()
    counts = CompileCounts(setattr)
    kind, notes = sys.argv[1], Path(sys.argv[2])
    number = get_rank()
    callbacks: list[Any] = [Losses(notes / f"losses_{number}")]
    folder = sys.argv[3] if len(sys.argv) > 3 else None
    if folder is not None:
        config = CheckpointConfig(save_checkpoint_steps=4, keep_checkpoint_max=20)
        callbacks.append(ModelCheckpoint("net", folder, config))
    model = train(kind, callbacks, folder, number, get_group_size())
    calls = world.current()._world.recorder.number  # type: ignore[attr-defined]
    ending = f"ends as rank {get_rank()} of {get_group_size()} after {model.step} steps and {calls} collectives"
    compiled = f"{counts.traces.total()} traces and {counts.placements.total()} placements"
    sys.stdout.write(f"number {number} {ending}, {compiled}.\n")


if __name__ == "__main__":
    main()
