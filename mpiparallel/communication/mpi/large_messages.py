"""How data travel that are larger than one message may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.mpi.mpi_world import MpiWorld
from mpiparallel.errors import CommunicationError


def pieces(world: MpiWorld, view: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield the parts of a one-dimensional array that one message can hold."""
    length = max(1, world.largest_message // view.itemsize)
    return (view[start : start + length] for start in range(0, view.size, length))


def side(world: MpiWorld, view: NDArray[np.uint8], counts: Sequence[int]) -> list[Any]:
    """Return the buffer, counts, displacements and datatype of one side of Alltoallv.

    Each side counts in elements just large enough for its own total; two sides need not choose alike.
    """
    length = 1
    while view.size > length * world.largest_message:
        length *= 2
    if length > 1 and any(count % length for count in counts):
        raise CommunicationError(
            f"all_to_all_v: {view.size} bytes are more than {world.largest_message}, so blocks must be multiples of "
            f"{length} bytes; pad them, or use exchange"
        )
    elements = [count // length for count in counts]
    starts = [0, *accumulate(elements)][: len(elements)]
    return [view, (elements, starts), world.datatype(length)]
