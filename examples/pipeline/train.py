"""Train one network in 4 stages by each schedule: the losses are the same, the idle time is not.

mpiparallel run -n 4 train.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import mpiparallel as ms
from mpiparallel import nn
from mpiparallel.communication import get_group_size, get_rank, init
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.pipeline import check, make_schedule

MICRO_BATCHES = 8
SCHEDULES = {"gpipe": "gpipe", "1f1b": "1f1b", "zb_h1": "zb_h1", "zb_v": "zero_bubble_v"}  # as pipeline_config has them


def chain(parts):
    """Return as many layers as there are parts, and the names by which stages are given to them."""
    cells = [nn.Dense(16, 16, activation="tanh") for _ in range(parts)]
    return nn.SequentialCell(*cells), cells


def losses_by(name, stages):
    """Train by a schedule; return its losses, and what the checker says of it."""
    schedule = make_schedule(name, stages=stages, micro_batches=MICRO_BATCHES)
    ms.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=True,
        pipeline_stages=stages,
        pipeline_config={"pipeline_scheduler": SCHEDULES[name]},
    )
    ms.set_seed(1)
    network, cells = chain(2 * stages)
    order = [*range(stages), *reversed(range(stages))] if name == "zb_v" else [part // 2 for part in range(2 * stages)]
    for cell, stage in zip(cells, order, strict=True):
        cell.pipeline_stage = stage
    trained = nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), micro_size=MICRO_BATCHES)
    x = np.random.default_rng(0).normal(size=(64, 16)).astype(np.float32)
    data = NumpySlicesDataset((x, np.tanh(x[:, ::-1])), ["x", "y"], shuffle=False).batch(32)
    model = ms.Model(trained, None, nn.Adam(network.trainable_params(), 0.01))
    model.train_network.set_train()
    batches = list(data.create_tuple_iterator())
    losses = [float(model.run_step(list(batch))) for batch in batches]
    ms.reset_auto_parallel_context()
    return losses, check(schedule)


def main():
    init()
    stages = get_group_size()
    idle = {}
    for name in SCHEDULES:
        losses, report = losses_by(name, stages)
        idle[name] = report.bubble
        print(f"{name}: losses {losses}, a stage idle for {report.bubble} of {report.step}")
    if get_rank() == 0:
        result = {"y": "idle time of a step, in forward passes", "bars": {"planned": idle}}
        Path("schedules.result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
