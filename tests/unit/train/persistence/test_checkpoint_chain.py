"""One training on 8, 4, 6, 1 and 64 ranks in turn, each going on from what the one before has saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mpiparallel.ops as ops
from mpiparallel import Model, Parameter, context, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train import Callback, CheckpointConfig, ModelCheckpoint

BATCH, WIDTH, HIDDEN, STEPS = 8, 24, 64, 4
# Data parallel, model parallel, optimizer shards.
CHAIN = {8: (2, 4, True), 4: (1, 4, False), 6: (2, 3, False), 1: (1, 1, False), 64: (4, 16, False)}


class Network(nn.Cell):
    def __init__(self, data, model):
        super().__init__()
        random = np.random.default_rng(3)
        self.w1 = Parameter(random.normal(size=(WIDTH, HIDDEN)) * 0.2, "w1")
        self.w2 = Parameter(random.normal(size=(HIDDEN, WIDTH)) * 0.2, "w2")
        self.first = ops.MatMul().shard(((data, 1), (1, model)))
        self.tanh = ops.Tanh().shard(((data, model),))
        self.second = ops.MatMul().shard(((data, model), (model, 1)))
        self.mean = ops.ReduceMean()

    def construct(self, x, y):
        return self.mean((self.second(self.tanh(self.first(x, self.w1)), self.w2) - y) ** 2)


class Losses(Callback):
    def __init__(self):
        self.by_step = {}

    def every_step(self, run_context):
        parameters = run_context.original_args()
        self.by_step[parameters.cur_step_num] = float(parameters.net_outputs.asnumpy())


def train(data, model, has_shards, steps, folder=None, every=STEPS):
    """Train up to ``steps`` steps, three of which are an epoch; return the losses by step, and from where it went."""
    context.set_seed(7)
    shards = {"enable_parallel_optimizer": has_shards, "parallel_optimizer_config": {"parallel_optimizer_threshold": 0}}
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, **shards)
    random = np.random.default_rng(9)
    rows = random.normal(size=(3 * BATCH, WIDTH)), random.normal(size=(3 * BATCH, WIDTH))
    dataset = NumpySlicesDataset(rows, ["x", "y"], shuffle=True).batch(BATCH)
    network = Network(data, model)
    trained = Model(network, optimizer=nn.Adam(network.trainable_params(), 0.05))
    losses = Losses()
    callbacks, start = [losses, StopAt(steps)], None
    if folder is not None:
        found = trained.resume(folder, dataset)
        start = found and found.step
        callbacks.append(ModelCheckpoint("chain", str(folder), CheckpointConfig(every)))
    trained.train(steps, dataset, callbacks, dataset_sink_mode=False)
    return losses.by_step, start


class StopAt(Callback):
    def __init__(self, step):
        self.step = step

    def step_end(self, run_context):
        if run_context.original_args().cur_step_num >= self.step:
            run_context.request_stop()


@pytest.fixture(scope="module")
def unmoved():
    """The losses of one rank that trains to the end."""
    return run_world(1, lambda _: train(1, 1, False, STEPS * len(CHAIN)))[0][0]


def test_a_training_goes_on_with_any_number_of_ranks(tmp_path: Path, unmoved: dict[int, float]) -> None:
    done = 0
    for ranks, cut in CHAIN.items():
        for losses, start in run_world(ranks, lambda _, cut=cut, done=done: train(*cut, done + STEPS, tmp_path)):
            assert start == (done or None)
            assert sorted(losses) == list(range(done + 1, done + STEPS + 1))
            for step, loss in losses.items():
                assert loss == pytest.approx(unmoved[step], rel=1e-9)
        done += STEPS
    assert sorted(unmoved) == list(range(1, done + 1))
