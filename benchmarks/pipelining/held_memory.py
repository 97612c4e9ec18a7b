"""What a step in stages holds of memory, as the kernel counts it, beside what the checker says of activations."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import numpy as np
from compiling.resident import peak, restart_peak
from pipelining.blocks import blocks_in_stages

from mpiparallel import Tensor, nn
from mpiparallel.communication.protocol import Communicator
from mpiparallel.nn.transformer import TransformerEncoderLayer
from mpiparallel.pipeline import Placement

BLOCKS, ROWS, WIDTH, HIDDEN = 32, 1024, 64, 256
LAYERS, SEQUENCES, LENGTH, HEADS = 8, 16, 64, 4


class Encoder(nn.Cell):
    """Layers of a Transformer's encoder, equally many in each part, and the loss."""

    def __init__(self, placement: Placement) -> None:
        super().__init__()
        layers = [TransformerEncoderLayer(None, WIDTH, HIDDEN, HEADS, LENGTH, 0.0, 0.0) for _ in range(LAYERS)]
        for place, layer in enumerate(layers):
            layer.pipeline_stage = placement.stages[place * len(placement.stages) // LAYERS]
        self.layers, self.loss = nn.CellList(layers), nn.MSELoss()

    def construct(self, x: Any, mask: Any, y: Any) -> Any:
        """Return the loss."""
        for layer in self.layers:
            x, _ = layer(x, mask)
        return self.loss(x, y)


def held_by_blocks(placement: Placement, micro_batches: int, communicator: Communicator) -> list[float]:
    """Return what each rank takes at most in steps of residual blocks, as a multiple of a micro-batch's activations.

    The activations of a block are what its gradients read: its input and what its ReLU gives. All else that a step
    takes counts too, such as gradients, messages, and memory that kernels need for a moment.
    """
    network = nn.WithLossCell(blocks_in_stages(placement, BLOCKS, WIDTH, HIDDEN), nn.MSELoss())
    batch = np.ones((ROWS * micro_batches, WIDTH), np.float32)
    unit = BLOCKS // communicator.size * ROWS * (WIDTH + HIDDEN) * batch.itemsize
    return [taken / unit for taken in _taken(network, (batch, batch), micro_batches, communicator)]


def held_by_encoder(placement: Placement, micro_batches: int, communicator: Communicator) -> list[float]:
    """Return what each rank takes at most in steps of a Transformer's encoder, in MiB."""
    rows = SEQUENCES * micro_batches
    batch, mask = np.ones((rows, LENGTH, WIDTH), np.float32), np.ones((rows, LENGTH, LENGTH), np.float32)
    taken = _taken(Encoder(placement), (batch, mask, batch), micro_batches, communicator)
    return [one / 2**20 for one in taken]


def _taken(network: Any, inputs: Sequence[Any], micro_batches: int, communicator: Communicator) -> list[float]:
    """Return how many bytes the resident memory of each rank has grown by at most, in two steps."""
    trained = nn.PipelineCell(network, micro_batches)
    step = nn.TrainOneStepCell(trained, nn.SGD(network.trainable_params(), 0.1)).set_train()
    tensors = [Tensor(one) for one in inputs]
    step.compile(*tensors)
    communicator.barrier()
    before = restart_peak()
    for _ in range(2):
        step(*tensors)
    everyone = np.empty(communicator.size)
    communicator.all_gather(np.array([float(peak() - before)]), everyone)
    del step, trained, network
    gc.collect()
    return everyone.tolist()
