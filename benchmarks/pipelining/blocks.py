"""Residual blocks in stages, as the peer in PyTorch has them."""

from __future__ import annotations

from typing import Any

from mpiparallel import nn, ops
from mpiparallel.parallel.border import Send
from mpiparallel.pipeline import Placement


class Block(nn.Cell):
    """A residual block of two products."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.into, self.out = nn.Dense(width, hidden), nn.Dense(hidden, width)

    def construct(self, x: Any) -> Any:
        """Return ``x`` and what the block adds."""
        return x + self.out(ops.relu(self.into(x)))


def blocks_in_stages(placement: Placement, blocks: int, width: int, hidden: int) -> nn.Cell:
    """Return a network of equally many blocks in each part."""
    each = blocks // len(placement.stages)
    network = nn.SequentialCell([Block(width, hidden) for _ in range(blocks)])
    for place, block in enumerate(network):
        block.pipeline_stage = placement.stages[place // each]
    return network


def bytes_sent(step: nn.TrainOneStepCell) -> int:
    """Return how many bytes this rank sends to other stages in a step."""
    (compiled,) = step.program.programs
    sends = [node for node in compiled.local.nodes if isinstance(node.operator, Send)]
    return sum(node.inputs[0].spec.byte_count for node in sends)
