"""The computations of one step, made once and named by all stages."""

from __future__ import annotations

from mpiparallel.dataclass import dataclass
from mpiparallel.pipeline.action import Action, Kind


@dataclass(frozen=True)
class Computations:
    """Forward, input gradient and weight gradient of each micro-batch through one chunk, by micro-batch.

    >>> print(Computations.of(2, chunk=1).backward(0)[1])
    W0.1
    """

    forward: tuple[Action, ...]
    input_gradient: tuple[Action, ...]
    weight_gradient: tuple[Action, ...]

    @classmethod
    def of(cls, micro_batches: int, chunk: int = 0) -> Computations:
        """Return those of ``micro_batches`` through ``chunk``."""
        kinds = (Kind.FORWARD, Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT)
        return cls(*(tuple(Action(kind, one, chunk) for one in range(micro_batches)) for kind in kinds))

    def backward(self, micro_batch: int) -> tuple[Action, Action]:
        """Return the whole backward pass of a micro-batch: the input gradient, then the weight gradient."""
        return self.input_gradient[micro_batch], self.weight_gradient[micro_batch]
