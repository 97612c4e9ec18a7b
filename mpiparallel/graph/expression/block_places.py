"""Places of blocks that stay in a processor's cache while a kernel passes over them several times."""

from __future__ import annotations

import sys
from math import prod

from mpiparallel.graph.execution.runtime import Runtime

_BLOCK = 1 << 16
"""Elements of a block: 256 KiB of float32. Smaller ones cost more calls; twice as large gained nothing."""

Place = tuple[slice, ...]


def block_size(runtime: Runtime) -> int:
    """Return how many elements a block has; an accelerator takes the whole array at once."""
    return _BLOCK if runtime.backend.name == "cpu" else sys.maxsize


def block_places(shape: tuple[int, ...], leading: int, size: int) -> list[Place]:
    """Return where the blocks of an array are, cut along its first ``leading`` dims; dims that are left out are whole.

    A block has at most ``size`` elements, or one row.

    >>> block_places((2, 3), 2, 4)
    [(slice(0, 1, None),), (slice(1, 2, None),)]
    >>> block_places((1, 6), 2, 4)
    [(slice(0, 1, None), slice(0, 4, None)), (slice(0, 1, None), slice(4, 8, None))]
    """
    if leading == 0:
        return [()]
    inner = prod(shape[1:])
    if inner > size and leading > 1:
        rows = block_places(shape[1:], leading - 1, size)
        return [(slice(row, row + 1), *rest) for row in range(shape[0]) for rest in rows]
    step = max(size // max(inner, 1), 1)
    return [(slice(start, start + step),) for start in range(0, shape[0], step)]
