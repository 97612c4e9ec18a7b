"""A small training in stages, from the newest of its checkpoints; each start of a job may have other stages.

``staged_training.py CHECKPOINTS --stages 3,2`` works in 3 stages, and where SLURM starts it once more in 2. Each rank
prints where it is, its stage, and the loss of each step to the last bit; every other step is saved. While
``CHECKPOINTS/../held`` is there, the last stage stands still in the middle of a step, and makes a file ``standing``.
"""

from __future__ import annotations

import argparse
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mpiparallel import Model, nn
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.operator import Operator
from mpiparallel.train import CheckpointConfig, ModelCheckpoint
from mpiparallel.train.callback import Callback
from tests.unit.train.staged_networks import ROWS, Case, make_model, rows

STEPS = 12
_CELLS = {1: (0,) * 6, 2: (0, 0, 0, 1, 1, 1), 3: (0, 0, 1, 1, 2, 2), 4: (0, 0, 1, 2, 3, 3)}


class Held(Operator):
    """What it is given, once nobody holds it up."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return inputs

    def equation(self, *inputs: TensorSpec) -> Equation:
        return Equation.parse("mk->mk")

    def gradient(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        return tuple(cotangents)

    def kernel(self, runtime: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        def run() -> None:
            outputs[0][...] = inputs[0]
            while (self._folder / "held").exists():
                (self._folder / "standing").touch()
                time.sleep(0.05)

        return run


class HeldCell(nn.Cell):
    """A cell of that."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.operator = Held(folder)

    def construct(self, x: Any) -> Any:
        return self.operator(x)


def train(checkpoints: Path, stages: int, callbacks: Sequence[Callback]) -> Model:
    """Train in so many stages, from the newest checkpoint."""
    model, network = make_model(Case(_CELLS[stages], dropout=0.25, tied=True))
    network.blocks[3].dropout = HeldCell(checkpoints.parent)
    data = rows(ROWS * STEPS)
    model.build(data)
    model.resume(checkpoints, data)
    config = CheckpointConfig(save_checkpoint_steps=2, keep_checkpoint_max=3)
    saver = ModelCheckpoint("net", str(checkpoints), config)
    model.train(1, data, [*callbacks, saver], dataset_sink_mode=False)
    return model


def main() -> None:
    from mpiparallel.communication import get_group_size, get_rank, init
    from tests.cluster.training import Told

    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoints", type=Path)
    parser.add_argument("--stages", default="2")
    parser.add_argument("--pause", type=float, default=0.0)
    arguments = parser.parse_args()
    init()
    start = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
    stages = int(arguments.stages.split(",")[start])
    stage = get_rank() * stages // get_group_size()
    print(f"rank {get_rank()} on {socket.gethostname()} in stage {stage}", flush=True)
    train(arguments.checkpoints, stages, [Told(arguments.pause)])


if __name__ == "__main__":
    main()
