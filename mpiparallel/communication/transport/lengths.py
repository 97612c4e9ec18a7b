"""How much travels at once, and whether the two ends of each message expect as many bytes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CommunicationError

Span = tuple[int, int]


def spans(count: int, most: int) -> list[Span]:
    """Return spans of at most ``most`` of ``count`` elements: one at least, as all members make the call.

    >>> spans(5, 2)
    [(0, 2), (2, 4), (4, 5)]
    >>> spans(0, 2)
    [(0, 0)]
    """
    return [(start, min(start + most, count)) for start in range(0, max(count, 1), most)]


def compare_lengths(communicator: Communicator, sends: Mapping[int, Array], receives: Mapping[int, Array]) -> None:
    """Raise CommunicationError where a member sends another length than this one expects; all members call it."""
    told = {peer: np.array([one.size], np.int64).view(np.uint8) for peer, one in sends.items()}
    heard = {peer: np.zeros(1, np.int64) for peer in receives}
    communicator.exchange(told, {peer: one.view(np.uint8) for peer, one in heard.items()})
    for peer, one in receives.items():
        if one.size != heard[peer][0]:
            raise CommunicationError(
                f"exchange: member {peer} sends {heard[peer][0]} bytes to member {communicator.rank}, which "
                f"expects {one.size} bytes"
            )
