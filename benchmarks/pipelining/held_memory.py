"""What a step in stages holds of memory, as the kernel counts it, beside what the checker says of activations."""

from __future__ import annotations

import gc
from dataclasses import dataclass

import numpy as np
from compiling.resident import peak, restart_peak
from pipelining.blocks import blocks_in_stages

from mpiparallel import Tensor, nn
from mpiparallel.communication.protocol import Communicator
from mpiparallel.pipeline import check, make_schedule

WIDTH, HIDDEN = 64, 256


@dataclass(frozen=True)
class Held:
    """Of each rank: micro-batches by the checker, and what a step has taken as a multiple of one's activations."""

    planned: tuple[float, ...]
    measured: tuple[float, ...]


def held(name: str, communicator: Communicator, blocks: int, rows: int, micro_batches: int) -> Held:
    """Return what two steps on batches of ``rows`` have taken.

    The activations of a block are what its gradients read: its input and what its ReLU gives. All else that a step
    takes counts too, such as gradients, messages, and memory that kernels need for a moment.
    """
    schedule = make_schedule(name, communicator.size, micro_batches)
    network = blocks_in_stages(schedule.placement, blocks, WIDTH, HIDDEN)
    trained = nn.PipelineCell(nn.WithLossCell(network, nn.MSELoss()), micro_batches)
    step = nn.TrainOneStepCell(trained, nn.SGD(network.trainable_params(), 0.1)).set_train()
    batch = Tensor(np.ones((rows, WIDTH), np.float32))
    step.compile(batch, batch)
    communicator.barrier()
    before = restart_peak()
    for _ in range(2):
        step(batch, batch)
    taken = np.array(float(peak() - before))
    everyone = np.empty(communicator.size)
    communicator.all_gather(taken[None], everyone)
    unit = blocks // communicator.size * (rows // micro_batches) * (WIDTH + HIDDEN) * 4
    del step, trained, network
    gc.collect()
    return Held(check(schedule).peaks, tuple(float(one) for one in everyone / unit))
