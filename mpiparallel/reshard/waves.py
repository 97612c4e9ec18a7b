"""Which tensors move together when memory is bounded."""

from __future__ import annotations

from collections.abc import Mapping

from mpiparallel.reshard.planning.plan import LayoutPair


def waves(pairs: Mapping[str, LayoutPair], itemsizes: Mapping[str, int], wave_bytes: int) -> list[list[str]]:
    """Return the tensors in waves, whose targets need at most ``wave_bytes`` on any rank, or are one tensor.

    Those that give back the most memory come first. So what has moved and what has not together need no more than the
    larger of the two states. The same on every rank.

    >>> from mpiparallel.layout import DeviceMatrix, Layout
    >>> whole, halves = (Layout((8,), DeviceMatrix((2,)), (axes,)) for axes in ((), (0,)))
    >>> waves({"a": (halves, whole), "b": (whole, halves), "c": (whole, halves)}, dict.fromkeys("abc", 1), 8)
    [['b', 'c'], ['a']]
    """
    needed = {tensor: target.largest_size * itemsizes[tensor] for tensor, (_, target) in pairs.items()}
    held = {tensor: source.largest_size * itemsizes[tensor] for tensor, (source, _) in pairs.items()}
    found: list[list[str]] = []
    room = 0
    for tensor in sorted(pairs, key=lambda tensor: (needed[tensor] - held[tensor], tensor)):
        if not found or needed[tensor] > room:
            found.append([])
            room = wave_bytes
        found[-1].append(tensor)
        room -= needed[tensor]
    return found
