"""Stages that compute in float16 have the losses and weights of one rank, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import Model, context, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.parallel.border import Send
from mpiparallel.train.loss_scale_manager import DynamicLossScaleManager
from tests.unit.train.staged_networks import ROWS, STEPS, Losses, held_boxes

WIDTH, STAGES = 8, 3


def trained(communicator, schedule: str, level: str):
    if communicator.size > 1:
        context.set_auto_parallel_context(
            parallel_mode="semi_auto_parallel",
            full_batch=True,
            pipeline_stages=STAGES,
            pipeline_config={"pipeline_scheduler": schedule},
        )
    context.set_seed(7)
    network = nn.SequentialCell(nn.Dense(WIDTH, 16), nn.Tanh(), nn.Dense(16, 16), nn.ReLU(), nn.Dense(16, 4))
    for stage in range(STAGES):
        network[2 * stage].pipeline_stage = stage
    pieces = nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), 4)
    optimizer = nn.Momentum(network.trainable_params(), 0.05, 0.9)
    # From the first scale the first step overflows.
    scale = DynamicLossScaleManager(2.0**18, 2, 2)
    model = Model(pieces, None, optimizer, amp_level=level, loss_scale_manager=scale)
    draw = np.random.default_rng(1)
    columns = tuple(draw.normal(size=(ROWS * STEPS, width)).astype(np.float32) for width in (WIDTH, 4))
    losses = Losses()
    data = NumpySlicesDataset(columns, ["x", "y"], shuffle=False).batch(ROWS)
    model.train(1, data, callbacks=[losses], dataset_sink_mode=False)
    sent = {
        str(node.inputs[0].spec.dtype)
        for one in model.train_network.program.programs
        for node in one.local.nodes
        if isinstance(node.operator, Send) and node.inputs[0].spec.shape
    }
    return losses.found, held_boxes(model, network), sent


@pytest.mark.parametrize("schedule", ["1f1b", "zb_h1"])
@pytest.mark.parametrize("level", ["O2", "O3"])
def test_stages_in_float16_with_a_loss_scale_are_one_rank_on_the_same_micro_batches(schedule: str, level: str) -> None:
    ((losses, wanted, _),) = run_world(1, trained, schedule, level)
    found = run_world(STAGES, trained, schedule, level)
    names = set()
    for of_rank, held, sent in found:
        assert of_rank == losses
        assert sent == {"float16"}
        names |= held.keys()
        for name, (_, values) in held.items():
            np.testing.assert_array_equal(values, wanted[name][1])
    assert names == wanted.keys()
