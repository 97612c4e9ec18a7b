"""A communicator that calls back before and after what its owner does with it: for injecting faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator

Bytes = NDArray[np.uint8]
Before = Callable[[str], None]
Landed = Callable[[str, Sequence[NDArray[Any]]], None]

_COLLECTIVES = {
    *("barrier", "rest", "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "all_to_all_v", "exchange"),
    *("strided_exchange", "share", "broadcast", "reduce", "any_true"),
}


class Meddling:
    """Behaves as ``communicator``; ``before(call)`` runs before each collective, ``landed(call, arrays)`` after each.

    ``arrays`` are those that the peers have written by then: what all_to_all_v, exchange or a strided exchange
    received, and after a barrier the newest shared memory of this rank. Groups are meddled with as well.
    """

    def __init__(
        self,
        communicator: Communicator,
        before: Before = lambda call: None,
        landed: Landed = lambda call, arrays: None,
    ) -> None:
        self._communicator = communicator
        self._before = before
        self._landed = landed
        self._shared: list[Bytes] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._communicator, name)
        if name not in _COLLECTIVES:
            return found

        def call(*args: Any, **named: Any) -> Any:
            self._before(name)
            result = found(*args, **named)
            self._landed(name, self._written(name, args))
            if name == "share":
                self._shared = [result.own]
            return _Run(result, self, list(args[1].values())) if name == "strided_exchange" else result

        return call

    def group(self, ranks: Sequence[int]) -> Meddling:
        """Return the same for some members."""
        return Meddling(self._communicator.group(ranks), self._before, self._landed)

    def _written(self, name: str, args: Sequence[Any]) -> list[NDArray[Any]]:
        if name == "all_to_all_v":
            return [args[2]]
        if name == "exchange":
            return list(args[1].values())
        return self._shared if name == "barrier" else []


class _Run:
    """A strided exchange whose runs are meddled with."""

    def __init__(self, exchange: Any, owner: Meddling, received: Sequence[Sequence[NDArray[Any]]]) -> None:
        self._exchange = exchange
        self._owner = owner
        self._received = [view for views in received for view in views]

    def run(self) -> None:
        self._owner._before("strided run")
        self._exchange.run()
        self._owner._landed("strided run", self._received)

    def free(self) -> None:
        self._exchange.free()


def flip_a_bit(arrays: Sequence[NDArray[Any]], position: int) -> bool:
    """Turn over one bit of the byte ``position``, counted over all arrays; False if all are empty."""
    filled = [array for array in arrays if array.nbytes]
    if not filled:
        return False
    position %= sum(array.nbytes for array in filled)
    for array in filled:
        if position < array.nbytes:
            content = np.frombuffer(array.tobytes(), np.uint8).copy()
            content[position] ^= 1
            array[...] = content.view(array.dtype).reshape(array.shape)
            return True
        position -= array.nbytes
    return False
