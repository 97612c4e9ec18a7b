"""The measurement of a machine: all ranks of a host busy at once, as in a step."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil, log2
from typing import Final

import numpy as np

from mpiparallel.backend.blas_threads import blas_threads
from mpiparallel.communication.occupancy import shared_cores
from mpiparallel.communication.protocol import Communicator
from mpiparallel.search.machine.libraries import library_bytes
from mpiparallel.search.machine.machine import Link, Machine

_EXTENTS: Final = (16, 64, 256, 768)
_TIMES: Final = 5
_SMALL: Final = 1 << 12
_LARGE: Final = 1 << 23
_MESSAGE: Final = 1 << 22
_CALLS: Final = 200


def measure(communicator: Communicator) -> Machine:
    """Return the machine that all ranks run on; they call it together, and it takes a few seconds.

    A link that no two ranks have between them stays as it is assumed.
    """
    hosts = sorted(set(communicator.hosts))
    # First: what is loaded for the other measurements is part of it.
    libraries = library_bytes()
    cores = shared_cores(communicator.group(communicator.host_ranks))
    # On one thread the processor tells what a kernel took; the clock tells what it waited for a core, too.
    measuring = _Measuring(communicator, time.thread_time if blas_threads() == 1 else time.perf_counter)
    assumed = Machine()
    return Machine(
        hosts=len(hosts),
        ranks_per_host=ceil(communicator.size / len(hosts)),
        cores=cores,
        libraries=libraries,
        products=tuple((2.0 * extent**3, measuring.product_rate(extent)) for extent in _EXTENTS),
        operation_rate=measuring.operation_rate(),
        memory_bandwidth=measuring.copied(),
        launch=measuring.launch(),
        inside=measuring.link(communicator.host_ranks) or assumed.inside,
        between=measuring.link(hosts) or assumed.between,
        reduction_rate=measuring.summed(),
    )


class _Measuring:
    """``clock`` is that of what a rank computes."""

    def __init__(self, communicator: Communicator, clock: Callable[[], float]) -> None:
        self._communicator = communicator
        self._clock = clock

    def _best(self, run: Callable[[], object], calls: int = 1, clock: Callable[[], float] | None = None) -> float:
        """Return the seconds of a call, the least of some times; all ranks begin together."""
        best, now = float("inf"), clock or self._clock
        for _ in range(_TIMES):
            self._communicator.barrier()
            started = now()
            for _ in range(calls):
                run()
            best = min(best, now() - started)
        return max(best / calls, 1e-9)

    def product_rate(self, extent: int) -> float:
        left, right = (np.full((extent, extent), 0.5, np.float32) for _ in range(2))
        out = np.empty_like(left)
        calls = max(1, 1 << 22 >> (3 * extent.bit_length()))
        return 2.0 * extent**3 / self._best(lambda: np.matmul(left, right, out=out), calls)

    def operation_rate(self) -> float:
        """Return operations a second on what the cache holds."""
        left = np.ones(_SMALL, np.float32)
        out = np.empty_like(left)
        return _SMALL / self._best(lambda: np.add(left, left, out=out), _CALLS)

    def copied(self) -> float:
        """Return the bytes that a rank reads and writes a second, from memory."""
        source = np.ones(_LARGE, np.uint8)
        target = np.empty_like(source)
        return 2.0 * _LARGE / self._best(lambda: np.copyto(target, source))

    def summed(self) -> float:
        """Return the bytes that a rank sums up a second."""
        left, right = (np.ones(_LARGE // 4, np.float32) for _ in range(2))
        return _LARGE / self._best(lambda: np.add(left, right, out=left))

    def launch(self) -> float:
        """Return the seconds of a kernel on one element."""
        one = np.zeros(1, np.float32)
        return self._best(lambda: np.add(one, one, out=one), _CALLS)

    def link(self, ranks: tuple[int, ...] | list[int]) -> Link | None:
        """Return the link between ranks, by gathering a few bytes and many; None where this is one rank."""
        if len(ranks) < 2 or self._communicator.rank not in ranks:
            self._idle()
            return None
        group = self._communicator.group(tuple(ranks))
        rounds = ceil(log2(len(ranks)))
        few, many = (self._gathered(group, size) for size in (len(ranks) * 8, _MESSAGE))
        moved = _MESSAGE * (len(ranks) - 1) / len(ranks)
        return Link(few / rounds, moved / max(many - few, 1e-9))

    def _gathered(self, group: Communicator, size: int) -> float:
        own = np.zeros(size // group.size, np.uint8)
        whole = np.zeros(own.size * group.size, np.uint8)
        return self._best(lambda: group.all_gather(own, whole), 5, time.perf_counter)

    def _idle(self) -> None:
        """Keep step with those that measure a link."""
        for _ in range(2 * _TIMES):
            self._communicator.barrier()
