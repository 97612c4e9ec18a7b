"""Ranks that train with batches of their own, one of which a rank finds spoilt: ``folder policy what step victim``.

``what`` is ``batch`` or ``weight``. Each rank leaves the weights it has at the beginning and at the end.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

RANKS, ROWS, BATCH = 4, 320, 32
STEPS = ROWS // BATCH


def main() -> None:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    import mpiparallel as ms
    from mpiparallel import Model, nn
    from mpiparallel.communication import get_rank, init
    from mpiparallel.dataset import NumpySlicesDataset
    from mpiparallel.train import Callback, CheckpointConfig, LossGuard, ModelCheckpoint

    folder, policy, what, step, victim = Path(sys.argv[1]), *sys.argv[2:4], *map(int, sys.argv[4:6])
    init()
    rank = get_rank()
    ms.set_seed(5)
    ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
    random = np.random.default_rng(5)
    x, y = random.normal(size=(ROWS, 8)).astype("f4"), random.normal(size=(ROWS, 3)).astype("f4")
    share = BATCH // RANKS
    own = np.arange(ROWS).reshape(-1, BATCH)[:, rank * share : (rank + 1) * share]
    if what == "batch" and rank == victim:
        x[own[step - 1, 1], 4] = np.nan
    data = NumpySlicesDataset((x[own.ravel()], y[own.ravel()]), ["x", "y"], shuffle=False).batch(share)

    class Spoil(Callback):
        """Turns one number of a weight into none, on one rank, before a step."""

        def step_begin(self, run_context: Any) -> None:
            if what == "weight" and (rank, run_context.original_args().cur_step_num) == (victim, step):
                network[0].weight.asnumpy()[2, 3] = np.nan

    network = nn.SequentialCell(nn.Dense(8, 16), nn.Tanh(), nn.Dense(16, 3))
    model = Model(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), 0.05, 0.9))
    saver = ModelCheckpoint("net", folder / "saved", CheckpointConfig(3, keep_checkpoint_max=99))
    leave(folder / f"start_{rank}.npz", network)
    model.train(1, data, [LossGuard(policy), saver, Spoil()], dataset_sink_mode=False)
    leave(folder / f"end_{rank}.npz", network)


def leave(path: Path, network: Any) -> None:
    np.savez(path, **{one.name: one.asnumpy() for one in network.get_parameters()})


if __name__ == "__main__":
    main()
