"""Small trainings with all that a resume must bring back, killed at a step and gone on with."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from mpiparallel import Model, context, nn
from mpiparallel.communication import get_group_size, get_rank
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train import Callback, CheckpointConfig, DynamicLossScaleManager, ModelCheckpoint

ROWS, BATCH, EPOCHS = 96, 8, 3
SHARDS = {"enable_parallel_optimizer": True, "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}
OWN = {"parallel_mode": "data_parallel", "gradients_mean": True}
ONE = {"parallel_mode": "semi_auto_parallel", "full_batch": True}


@dataclass(frozen=True)
class Case:
    """On how many ranks a training runs, and how it is cut."""

    ranks: int
    settings: dict[str, Any]
    cut: Any = None
    accumulation: int = 1
    dtype: Any = np.float32
    scaled: bool = True
    normed: bool = True
    device_target: str = "CPU"

    @property
    def own(self):
        """Whether each rank is fed batches of its own."""
        return self.settings["parallel_mode"] == "data_parallel"

    @property
    def steps(self):
        """The steps of all epochs."""
        return EPOCHS * (ROWS // BATCH // self.accumulation)


CASES = {
    "1 rank": Case(1, ONE, accumulation=2),
    "2 ranks, data parallel": Case(2, OWN, accumulation=3),
    "4 ranks, data parallel, optimizer shards": Case(4, {**OWN, **SHARDS}),
    "2 ranks, cut": Case(2, ONE, ((1, 2), (1, 2))),
    "4 ranks, cut, optimizer shards": Case(4, {**ONE, **SHARDS}, ((2, 1), (2, 1)), accumulation=2),
    "4 ranks, batch parallel, optimizer shards": Case(4, {**ONE, **SHARDS}),
}


def network_of(case):
    float_type = case.dtype
    first = nn.Dense(8, 6, dtype=float_type)
    if case.cut:
        first.matmul.shard(case.cut)
    norm = [nn.BatchNorm2d(2, dtype=float_type)] if case.normed else []
    dropout = [nn.Dropout(0.8)] if case.scaled else []
    return nn.SequentialCell([*norm, nn.Flatten(), first, nn.ReLU(), *dropout, nn.Dense(6, 4, dtype=float_type)])


def data_of(case, batch=BATCH):
    random = np.random.default_rng(8)
    x, y = random.normal(size=(ROWS, 2, 2, 2)), random.normal(size=(ROWS, 4))
    shards = {"num_shards": get_group_size(), "shard_id": get_rank()} if case.own else {}
    pairs = x.astype(case.dtype), y.astype(case.dtype)
    return NumpySlicesDataset(pairs, ["x", "y"], shuffle=True, **shards).batch(batch // shards.get("num_shards", 1))


def model_of(case, rate=0.05, seed=3, optimizer_class=nn.Adam, wrapped=lambda network: network):
    context.set_context(device_target=case.device_target)
    context.set_seed(seed)
    context.reset_auto_parallel_context()
    context.set_auto_parallel_context(**case.settings)
    network = wrapped(network_of(case))
    schedule = nn.CosineDecayLR(rate / 10, rate, case.steps)
    scaled = {"loss_scale_manager": DynamicLossScaleManager(2.0**6, 2, 3)} if case.scaled else {}
    more = (0.9,) if optimizer_class is nn.Momentum else ()
    optimizer = optimizer_class(network.trainable_params(), schedule, *more)
    return Model(network, nn.MSELoss(), optimizer, accumulation_steps=case.accumulation, **scaled)


class KilledError(Exception):
    """What ends a training in a test."""


class Record(Callback):
    """Keeps the bytes of every loss by its step, and ends the training behind one."""

    def __init__(self, last=None):
        self.losses, self.last = {}, last

    def every_step(self, run_context):
        parameters = run_context.original_args()
        self.losses[parameters.cur_step_num] = parameters.net_outputs.asnumpy().tobytes()

    def step_end(self, run_context):
        if run_context.original_args().cur_step_num == self.last:
            raise KilledError


def state_of(model):
    """Return the bytes of this rank's slices of all that is trained or kept."""
    kept = (one for one in model.train_network.get_parameters() if not one.transient)
    return {one.name: (one.dtype.str, one.asnumpy().tobytes()) for one in kept}


def leg(case, folder, last=None, config=None, epochs=EPOCHS, strict=True):
    """Resume from a folder on all ranks of a world of threads, train on, and return what each rank has seen.

    That is what was resumed from, the losses by step, the state at the end, and the model's step.
    """

    def on_rank(communicator):
        model, record = model_of(case), Record()
        data = data_of(case)
        found = None if folder is None else model.resume(folder, data, strict=strict)
        savers = [ModelCheckpoint("net", str(folder), config or CheckpointConfig(1))] if folder else []
        with suppress(KilledError):
            model.train(epochs, data, [record, *savers, Record(last)], dataset_sink_mode=False)
        return found, record.losses, state_of(model), model.step

    return run_world(case.ranks, on_rank)


def stopped(case, folder, strict=True):
    """Resume on all ranks and return what they hold, without a step, as ``leg`` does."""

    def on_rank(communicator):
        model = model_of(case)
        found = model.resume(folder, data_of(case), strict=strict)
        return found, {}, state_of(model), model.step

    return run_world(case.ranks, on_rank)


def losses_of(ranks, dtype):
    """Return the mean over ranks of each step's loss."""
    steps = ranks[0][1]
    return {step: np.mean([np.frombuffer(losses[step], dtype)[0] for _, losses, *_ in ranks]) for step in steps}
