"""Ranks that train until they are preempted, or to the end, from the newest checkpoint on: ``notes folder kind``.

Each rank logs the loss of each step, to the bit; with what exit code it leaves, and after which step; and, if it comes
to the end, all it holds. ``KINDS`` are ways to train.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from mpiparallel.cluster.preemption_signal import heed_preemption

ROWS, BATCH, EPOCHS = 90, 10, 6
STEPS = EPOCHS * ROWS // BATCH
KINDS = {
    "saved at once": {"every": 4},
    "saved by a thread": {"every": 4, "async_save": True},
    "sunk, saved at the end": {"every": 1000, "sink": True},
    "spares wait": {"every": 4, "ranks": 2},
    "in stages": {"every": 4, "stages": 2},
}
LONGEST_FINALLY = 0.1


def main() -> None:
    # As the launcher's worker does before all else.
    heed_preemption()
    from tests.reliability.mpi_job import announce

    notes, folder, kind = Path(sys.argv[1]), Path(sys.argv[2]), KINDS[sys.argv[3]]
    announce(notes)
    from mpiparallel.communication import get_rank, init

    init()
    rank = get_rank()
    (notes / f"segments_{rank}").write_text("\n".join(segments()))
    code: Any = 0
    model, staged = prepared(folder, kind)
    (notes / "going").touch()
    try:
        train(model, folder, notes, rank, kind)
    except SystemExit as end:
        code = end.code
        raise
    finally:
        # Ranks may take their time.
        time.sleep(np.random.default_rng().uniform(0.0, LONGEST_FINALLY))
        (notes / f"ended_{rank}").write_text(f"{code} {model.step}")
    from mpiparallel.train.persistence.state import state_of

    arrays, _ = state_of(staged) if model.active else ({}, {})
    np.savez(notes / f"state_{rank}.npz", **arrays)


def segments() -> set[str]:
    """Return the shared memory of MPI that this process has, as the kernel lists it."""
    named = {line.partition("/dev/shm/")[2] for line in Path("/proc/self/maps").read_text().splitlines()}
    return {f"/dev/shm/{name}" for name in named if name and "/" not in name and "(deleted)" not in name}


def prepared(folder: Path, kind: dict[str, Any]) -> tuple[Any, Any]:
    """Return the model as it stands in the newest checkpoint, and its training graph."""
    import mpiparallel as ms
    from mpiparallel import Model, nn
    from tests.reliability.ranks.training_ranks import Network

    ms.set_seed(3)
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    rates = nn.exponential_decay_lr(0.01, 0.9, STEPS, ROWS // BATCH, 1)
    network: Any = staged_network(kind["stages"]) if "stages" in kind else Network()
    loss = None if "stages" in kind else nn.MSELoss()
    model = Model(network, loss, nn.Adam(network.trainable_params(), rates))
    if "ranks" in kind:
        model.reshard(ranks=kind["ranks"])
    if not model.active:
        return model, None
    staged = model.build(data())
    model.resume(folder, data())
    return model, staged


def staged_network(stages: int) -> Any:
    """Return a network with its loss in two stages, that takes five micro-batches."""
    import mpiparallel as ms
    from mpiparallel import nn

    network = nn.SequentialCell(nn.Dense(12, 34), nn.Dropout(p=0.25), nn.ReLU(), nn.Dense(34, 5))
    network[0].pipeline_stage, network[3].pipeline_stage = 0, 1
    ms.set_auto_parallel_context(pipeline_stages=stages)
    return nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), BATCH // 2)


def data() -> Any:
    from mpiparallel.dataset import NumpySlicesDataset

    rows = np.random.default_rng(3)
    columns = rows.standard_normal((ROWS, 12)).astype("f4"), rows.standard_normal((ROWS, 5)).astype("f4")
    return NumpySlicesDataset(columns, ["x", "y"], shuffle=True).batch(BATCH)


def train(model: Any, folder: Path, notes: Path, rank: int, kind: dict[str, Any]) -> None:
    """Train to the end, or until a signal comes."""
    from mpiparallel.train import Callback, CheckpointConfig, ModelCheckpoint

    class Losses(Callback):
        """Adds step and loss to a file of this rank."""

        def every_step(self, run_context: Any) -> None:
            parameters = run_context.original_args()
            loss = np.asarray(parameters.net_outputs.asnumpy()).tobytes().hex()
            with (notes / f"losses_{rank}").open("a") as file:
                file.write(f"{parameters.cur_step_num} {loss}\n")

    class Evaluation(Callback):
        """Evaluates at the end of each epoch."""

        def epoch_end(self, run_context: Any) -> None:
            model.eval(data())

    config = CheckpointConfig(kind["every"], keep_checkpoint_max=3, async_save=kind.get("async_save", False))
    callbacks = [Losses(), ModelCheckpoint("net", str(folder), config), Evaluation()]
    model.train(EPOCHS, data(), callbacks, dataset_sink_mode=kind.get("sink", False))


if __name__ == "__main__":
    main()
