"""A training whose every number is exact in float64, saved under each kind of cut: what earlier versions have written.

Run as a program, it writes the files of the version that it is run with: ``PYTHONPATH=<repository at a commit> python
tests/conformance/trainings/earlier_training.py tests/fixtures/earlier <commit>``. Elements are small integers, the
rates powers of two; so whatever the order of sums, NumPy, every version and every cut give the same bits.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import mpiparallel as ms
from mpiparallel import Model, Parameter, nn, ops
from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import StrategyRecord
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.train import Callback, CheckpointConfig, ModelCheckpoint

RANKS = 4
RATE, MOMENTUM, SHARE = 2.0**-4, 0.5, 2.0**-6
SHARDS = {"enable_parallel_optimizer": True, "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}


@dataclass(frozen=True)
class Cut:
    """The strategies of both products, and the settings of the parallel mode."""

    first: Any = None
    second: Any = None
    settings: dict[str, Any] = field(default_factory=dict)


CUTS = {
    "replicated": Cut(),
    "dim_0": Cut(((1, 4), (4, 1)), ((1, 4), (4, 1))),
    "dim_1": Cut(((1, 1), (1, 4)), ((1, 1), (1, 2))),
    "two_dims": Cut(((1, 2), (2, 2)), ((1, 2), (2, 2))),
    "uneven": Cut(((1, 1), (1, 4)), ((1, 1), (1, 4))),
    "optimizer_shards": Cut(settings=SHARDS),
    "cut_and_optimizer_shards": Cut(((2, 1), (1, 2)), ((2, 2), (2, 1)), SHARDS),
}


def numbers(rows: int, columns: int, factor: int, below: int) -> np.ndarray[Any, Any]:
    """Return small integers that no random generator has made."""
    places = np.arange(rows * columns).reshape(rows, columns)
    return ((places * factor + places // columns) % (2 * below + 1) - below).astype(np.float64)


X, Y = numbers(8, 8, 3, 2), numbers(8, 6, 5, 3)
W1, W2 = numbers(8, 8, 7, 1), numbers(8, 6, 4, 1)


class Network(nn.Cell):
    """The sum of the squares of what two products lack, times a power of two."""

    def __init__(self, cut: Cut) -> None:
        super().__init__()
        self.w1, self.w2 = Parameter(W1.copy(), "w1"), Parameter(W2.copy(), "w2")
        self.first, self.second, self.total = ops.MatMul(), ops.MatMul(), ops.ReduceSum()
        if cut.first is not None:
            self.first.shard(cut.first)
            self.second.shard(cut.second)

    def construct(self, x: Any, y: Any) -> Any:
        error = self.second(self.first(x, self.w1), self.w2) - y
        return self.total(error * error) * SHARE


class Losses(Callback):
    """Keeps the losses by step."""

    def __init__(self) -> None:
        self.by_step: dict[int, float] = {}

    def every_step(self, run_context: Any) -> None:
        told = run_context.original_args()
        self.by_step[told.cur_step_num] = float(told.net_outputs.asnumpy())


def model_of(cut: Cut, **settings: Any) -> Model:
    """Return the model of a network that is cut so."""
    ms.context.reset_auto_parallel_context()
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, **cut.settings, **settings)
    network = Network(cut)
    return Model(network, optimizer=nn.Momentum(network.trainable_params(), RATE, MOMENTUM))


def batch() -> Any:
    """Return the one batch of each epoch."""
    return NumpySlicesDataset((X, Y), ["x", "y"], shuffle=False).batch(8)


def _write(communicator: Any, folder: Path, name: str) -> dict[int, float]:
    files = {
        "strategy_ckpt_save_file": str(folder / "strategy.ckpt"),
        "group_ckpt_save_file": str(folder / f"group_info_{communicator.rank}.pb"),
    }
    files = files if communicator.rank == 0 else {"group_ckpt_save_file": files["group_ckpt_save_file"]}
    model, losses = model_of(CUTS[name], **files), Losses()
    saver = ModelCheckpoint("net", str(folder / "checkpoint"), CheckpointConfig(save_checkpoint_steps=1))
    model.train(1, batch(), [losses, saver], dataset_sink_mode=False)
    model.train(1, batch(), [losses], dataset_sink_mode=False)
    return losses.by_step


def stage_records() -> dict[str, StrategyRecord]:
    """Return what the strategy files of two pipeline stages of two ranks say, by their names."""
    rows, columns = Layout(W1.shape, DeviceMatrix((2,)), ((0,), ())), Layout(W2.shape, DeviceMatrix((2,)), ((), (0,)))
    return {
        "stage_0.ckpt": StrategyRecord.of({"w1": rows, "moments.w1": rows}, {"MatMul_w1": ((1, 2), (2, 1))}, stage=0),
        "stage_1.ckpt": StrategyRecord.of({"w2": columns}, {"MatMul_w2": ((1, 1), (1, 2))}, stage=1),
    }


def main() -> None:
    """Write the files of each cut, and the losses of its first two steps, of which the first is saved."""
    target = Path(sys.argv[1])
    losses = {}
    for name in CUTS:
        folder = target / name
        folder.mkdir(parents=True)
        losses[name] = run_world(RANKS, _write, folder, name)[0]
        told = {"device_num": RANKS, "global_rank": 0, "strategy_ckpt_save_file": str(folder / "strategy.json")}
        model_of(CUTS[name], **told).build(batch())
    stages = target / "stages"
    stages.mkdir()
    for name, record in stage_records().items():
        write_strategy(stages / name, record)
    ms.merge_pipeline_strategys(str(stages), str(target / "merged.ckpt"))
    said = {"written_by": f"mpiparallel {ms.__version__}, commit {sys.argv[2]}", "losses": losses}
    (target / "losses.json").write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
