"""Scalars that several stages of a pipeline need of each other, brought together in one message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.cost import Cost
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.runtime import Runtime, do_nothing
from mpiparallel.graph.operator import Kernel, Operator

SLOT: Final = 2
"""Words of 8 bytes for each: a complex number of 16 bytes fits."""


class ShareScalars(Operator):
    """Gives the scalars ``given`` to other stages, and takes those ``taken`` of them: places among ``count`` of all.

    A scalar is a tensor of one element; ``dims`` says how many dims each of ``taken`` has. ``ranks`` are all that take
    part, and the first of each stage gives what that has. Their bits are added to zeros, so all have the same bits.
    """

    kind = "communication"

    def __init__(
        self,
        count: int,
        given: Sequence[int],
        taken: Sequence[int],
        dims: Sequence[int],
        ranks: tuple[int, ...],
        givers: tuple[int, ...],
    ) -> None:
        self.count = count
        self.given = tuple(given)
        self.taken = tuple(taken)
        self.dims = tuple(dims)
        self.ranks = ranks
        self.givers = givers

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        raise NotImplementedError(f"{self.scope}: what it takes was computed by others")

    def equation(self, *inputs: TensorSpec) -> Equation:
        return Equation(tuple((None,) * len(spec.shape) for spec in inputs), tuple((None,) * dim for dim in self.dims))

    def cost(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Cost:
        """Return the copies; what comes and goes is a message of a few bytes."""
        moved = 8 * SLOT * self.count
        return Cost(0, moved, moved)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        communicator, backend = runtime.group(self.ranks), runtime.backend
        words = np.zeros(SLOT * self.count, np.int64)
        gives = communicator.ranks[communicator.rank] in self.givers
        sent = [(array, _place(words, place, array)) for place, array in zip(self.given, inputs, strict=True) if gives]
        come = [(_place(words, place, array), array) for place, array in zip(self.taken, outputs, strict=True)]
        if communicator.size == 1:
            return do_nothing

        def run() -> None:
            words.fill(0)
            for array, place in sent:
                backend.copy_to_host(array, place)
            communicator.all_reduce(words)
            for place, array in come:
                backend.copy_from_host(place, array)

        return run


def _place(words: np.ndarray[Any, Any], place: int, array: Array) -> np.ndarray[Any, Any]:
    """Return the view of a scalar's place among the words."""
    slot = words[SLOT * place : SLOT * (place + 1)].view(np.uint8)[: array.nbytes]
    return np.ndarray(array.shape, array.dtype, slot.data)
