"""Between stages go the values that the next stage takes, each once, and nothing else."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from pipelining.blocks import blocks_in_stages, bytes_sent

from mpiparallel import Tensor, context, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.pipeline import make_schedule

STAGES, MICRO_BATCHES, WIDTH, ROWS = 4, 8, 4, 16


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "interleaved_1f1b", "zb_h1", "zb_v", "v_half"])
def test_of_residual_blocks_each_border_is_crossed_by_activations_and_their_gradients_alone(name: str) -> None:
    placement = make_schedule(name, STAGES, MICRO_BATCHES).placement

    def job(communicator) -> int:
        context.set_auto_parallel_context(
            parallel_mode="semi_auto_parallel",
            full_batch=True,
            pipeline_stages=STAGES,
            pipeline_config={"pipeline_scheduler": name},
        )
        network = blocks_in_stages(placement, 2 * STAGES, WIDTH, WIDTH)
        trained = nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), MICRO_BATCHES)
        step = nn.TrainOneStepCell(trained, nn.SGD(network.trainable_params(), 0.1)).set_train()
        rows = Tensor(np.ones((ROWS, WIDTH), np.float32))
        step(rows, rows)
        return bytes_sent(step)

    borders = sum(before != after for before, after in pairwise(placement.stages))
    batch, loss = ROWS * WIDTH * 4, 4
    assert sum(run_world(STAGES, job)) == 2 * borders * batch + (STAGES - 1) * loss
