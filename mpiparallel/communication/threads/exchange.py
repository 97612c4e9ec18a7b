"""What thread ranks exchange point to point, and the memory they share: they see each other's arrays as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication import arguments
from mpiparallel.communication.protocol import Communicator


class ThreadExchange:
    """Copies between arrays of one process, all of them at one time."""

    def __init__(self, communicator: Communicator, copies: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> None:
        self._communicator = communicator
        self._copies: Sequence[tuple[NDArray[Any], NDArray[Any]]] | None = copies

    def run(self) -> None:
        arguments.refuse(arguments.freed_problem("strided_exchange", self._copies is None))
        self._communicator.barrier()
        for target, source in self._copies or ():
            np.copyto(target, source)
        self._communicator.barrier()

    def free(self) -> None:
        self._copies = None


def unmatched_bytes(payloads: Sequence[Any]) -> str | None:
    """Say which two members expect other numbers of bytes from one another; a payload is what ``exchange`` takes."""
    for source, target, sent, received in _pairs(payloads):
        lengths = ["nothing" if view is None else f"{view.size} bytes" for view in (sent, received)]
        if lengths[0] != lengths[1]:
            return f"exchange: member {source} sends {lengths[0]} to member {target}, which expects {lengths[1]}"
    return None


def unmatched_views(payloads: Sequence[Any]) -> str | None:
    """Say which two members name unlike views; a payload is what ``strided_exchange`` takes."""
    for source, target, sent, received in _pairs(payloads):
        if arguments.forms(sent or ()) != arguments.forms(received or ()):
            return arguments.unlike_views(source, target)
    return None


def _pairs(payloads: Sequence[Any]) -> Iterator[tuple[int, int, Any, Any]]:
    """Yield source and target where one names the other, what the source sends and what the target receives."""
    for member, (sends, receives) in enumerate(payloads):
        for target, sent in sends.items():
            yield member, target, sent, payloads[target][1].get(member)
        for source in receives:
            if member not in payloads[source][0]:
                yield source, member, None, receives[source]
