"""A tensor in portions that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from mpiparallel.layout.box import Box

PORTION_BYTES = 8 << 20


def portions(box: Box, itemsize: int, most_bytes: int = PORTION_BYTES) -> Iterator[Box]:
    """Yield the parts of ``box``, in C order, of at most ``most_bytes`` where an element has ``itemsize``.

    >>> list(portions(Box((2, 0), (5, 4)), 1, 8))
    [Box(start=(2, 0), stop=(4, 4)), Box(start=(4, 0), stop=(5, 4))]
    """
    if box.empty:
        return
    if not box.start or box.size * itemsize <= most_bytes:
        yield box
        return
    rows = most_bytes // (prod(box.shape[1:]) * itemsize)
    for first in range(box.start[0], box.stop[0], max(1, rows)):
        last = min(first + max(1, rows), box.stop[0])
        if rows:
            yield Box((first, *box.start[1:]), (last, *box.stop[1:]))
            continue
        for inner in portions(Box(box.start[1:], box.stop[1:]), itemsize, most_bytes):
            yield Box((first, *inner.start), (last, *inner.stop))
