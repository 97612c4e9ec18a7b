"""The measurement of a machine: all ranks of a host busy at once, as in a step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from math import ceil, log2
from statistics import median
from typing import Any, Final

import numpy as np

from mpiparallel.backend.blas_threads import blas_threads
from mpiparallel.communication.occupancy import shared_cores
from mpiparallel.communication.protocol import Communicator
from mpiparallel.graph.graph import Graph
from mpiparallel.search.machine.collective_kernels import collective_kernel
from mpiparallel.search.machine.kernel_times import KernelTimes
from mpiparallel.search.machine.libraries import compile_elsewhere, library_bytes
from mpiparallel.search.machine.machine import COLLECTIVES, CollectiveTimes, Link, Machine
from mpiparallel.search.machine.measured_kernels import compile_share, measured_kernels
from mpiparallel.search.machine.stopwatch import Pace, Stopwatch

_EXTENTS: Final = (16, 64, 256, 512, 768)
_THIN: Final = 64
_SIZES: Final = (1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 22, 1 << 24)
_TIMES: Final = 5
_FEW_TIMES: Final = 3
_TWICE: Final = 2
"""Messages of megabytes take long, and differ little from time to time."""
_COPIES: Final = 3
"""A step has other arrays in each of its collectives; those that were just there are a fifth quicker."""
_CALLED_BYTES: Final = 1 << 21
_MOST_CALLS: Final = 6
_SMALL: Final = 1 << 12
_LARGE: Final = 1 << 23
_MESSAGE: Final = 1 << 22
_CALLS: Final = 200
_COMPUTED: Final = (192, 320, 448)
_COPIED: Final = 1 << 20


def measure(
    communicator: Communicator, graphs: Callable[[], Sequence[Graph]] = tuple, pace: Pace | None = None
) -> Machine:
    """Return the machine that all ranks run on; they call it together, and it takes a few seconds.

    The kernels of ``graphs`` are measured by name, on one rank for each core; that of others is without them. A link
    that no two ranks have between them stays as it is assumed. A new ``pace`` tells afterwards at which pace of a core
    all was counted.
    """
    hosts = sorted(set(communicator.hosts))
    host = communicator.group(communicator.host_ranks)
    cores = shared_cores(host)
    # First: what is loaded for the other measurements is part of it.
    libraries = _libraries(host, cores)
    pace, assumed = pace or Pace(), Machine()
    inside, between = (_link(communicator, *one) for one in ((communicator.host_ranks, cores), (hosts, len(hosts))))
    collectives = tuple(_collectives(communicator, cores, pace))
    # On one thread the processor tells what a kernel took; the clock tells what it waited for a core, too.
    spent = pace.watch(communicator)
    computing = spent if blas_threads() == 1 else Stopwatch()
    measuring = _Measuring(communicator, computing)
    kernels = _kernels(host, cores, graphs, computing)
    products, operand_bandwidth = measuring.products()
    return Machine(
        hosts=len(hosts),
        ranks_per_host=ceil(communicator.size / len(hosts)),
        cores=cores,
        libraries=libraries,
        products=products,
        operand_bandwidth=operand_bandwidth,
        operation_rate=measuring.operation_rate(),
        memory_bandwidth=measuring.copied(),
        launch=measuring.launch(),
        inside=inside or assumed.inside,
        between=between or assumed.between,
        reduction_rate=measuring.summed(),
        resuming=_resuming(host, cores, spent),
        kernels=kernels,
        collectives=collectives,
    )


def _libraries(host: Communicator, cores: int) -> float:
    """Return what libraries take of a rank's memory, as a rank for each core finds: others would only load them."""
    if host.rank == 0:
        compile_elsewhere()
    host.rest()
    found = np.array([library_bytes() if host.rank < cores else 0.0])
    host.all_reduce(found, "max")
    return float(found[0])


def _kernels(
    host: Communicator, cores: int, graphs: Callable[[], Sequence[Graph]], watch: Stopwatch
) -> tuple[KernelTimes, ...]:
    """Return what kernels take, by name."""
    measured = graphs() if host.rank < cores else ()
    compile_share(measured, host.rank, min(cores, host.size))
    host.rest()
    times = measured_kernels(measured, watch)
    host.rest()
    return times


def _resuming(host: Communicator, cores: int, watch: Stopwatch) -> float:
    """Return what a collective costs each rank of a host beside itself, in a step; 0 where each rank has a core.

    Who comes first waits while others compute, and does so on a core that they could use. What it goes on with has
    left the caches.
    """
    if cores >= host.size:
        return 0.0
    numbers = np.zeros(_SMALL // 4, np.float32)
    source, target = np.ones(_COPIED, np.uint8), np.empty(_COPIED, np.uint8)
    alone = _spent(host, lambda: host.all_reduce(numbers), watch)
    found = []
    for extent in _COMPUTED:
        x = np.full((extent, extent), 0.5, np.float32)
        y = np.empty_like(x)

        def compute(x: np.ndarray[Any, Any] = x, y: np.ndarray[Any, Any] = y) -> None:
            np.matmul(x, x, out=y)
            np.copyto(target, source)

        def compute_and_sum(compute: Callable[[], None] = compute) -> None:
            compute()
            host.all_reduce(numbers)

        found.append(_spent(host, compute_and_sum, watch) - _spent(host, compute, watch) - alone)
    return max(0.0, median(found))


def _spent(host: Communicator, run: Callable[[], object], watch: Stopwatch) -> float:
    """Return the seconds of a processor that a call takes a rank, on average of all."""
    run()
    spent = np.array([_timed(host, run, watch, _MOST_CALLS, _FEW_TIMES)])
    host.all_reduce(spent)
    return float(spent[0]) / host.size


def _bytes_of(rows: int, extent: int) -> float:
    """Return the bytes of the matrices of a product."""
    return 4.0 * (extent**2 + 2 * rows * extent)


class _Measuring:
    """``watch`` is that of what a rank computes; what memory decides does not follow the pace of a core."""

    def __init__(self, communicator: Communicator, watch: Stopwatch) -> None:
        self._communicator = communicator
        self._watch, self._plain = watch, Stopwatch(watch.clock)

    def _least(self, run: Callable[[], object], calls: int = 1) -> float:
        """Return the least seconds of a call; all ranks begin together."""
        return _timed(self._communicator, run, self._plain, calls, _TIMES)

    def products(self) -> tuple[tuple[tuple[float, float], ...], float]:
        """Return operations and operations a second of products, and the bytes of matrices that they take in a second.

        A thin product has more bytes for its operations than a square one, and else is alike.
        """
        large = _EXTENTS[-1]
        thin, *square = (self._product(rows, extent) for rows, extent in ((_THIN, large), *((n, n) for n in _EXTENTS)))
        operations = 2.0 * _THIN * large**2, 2.0 * large**3
        slopes = thin / operations[0], square[-1] / operations[1]
        loads = _bytes_of(_THIN, large) / operations[0], _bytes_of(large, large) / operations[1]
        spent = (slopes[0] - slopes[1]) / (loads[0] - loads[1])
        table = []
        for extent, seconds in zip(_EXTENTS, square, strict=True):
            # A small one has its matrices at hand.
            most = max(seconds - spent * _bytes_of(extent, extent), seconds / 2)
            table.append((2.0 * extent**3, 2.0 * extent**3 / most))
        return tuple(table), 1 / spent if spent > 0 else float("inf")

    def _product(self, rows: int, extent: int) -> float:
        """Return the seconds of a product of ``rows`` rows, on average with those of its two gradients."""
        x, weight, y = (np.full(shape, 0.5, np.float32) for shape in ((rows, extent), (extent, extent), (rows, extent)))
        calls = max(1, 1 << 22 >> (3 * extent.bit_length()))
        given, gradient, weight_gradient = np.empty_like(y), np.empty_like(x), np.empty_like(weight)

        def run() -> None:
            np.matmul(x, weight.T, out=given)
            np.matmul(y, weight, out=gradient)
            np.matmul(y.T, x, out=weight_gradient)

        return _timed(self._communicator, run, self._watch, calls, _TIMES) / 3

    def operation_rate(self) -> float:
        """Return operations a second on what the cache holds."""
        left = np.ones(_SMALL, np.float32)
        out = np.empty_like(left)
        return _SMALL / self._least(lambda: np.add(left, left, out=out), _CALLS)

    def copied(self) -> float:
        """Return the bytes that a rank reads and writes a second, from memory."""
        source = np.ones(_LARGE, np.uint8)
        target = np.empty_like(source)
        return 2.0 * _LARGE / self._least(lambda: np.copyto(target, source))

    def summed(self) -> float:
        """Return the bytes that a rank sums up a second."""
        left, right = (np.ones(_LARGE // 4, np.float32) for _ in range(2))
        return _LARGE / self._least(lambda: np.add(left, right, out=left))

    def launch(self) -> float:
        """Return the seconds of a kernel on one element."""
        one = np.zeros(1, np.float32)
        return self._least(lambda: np.add(one, one, out=one), _CALLS)


def _link(communicator: Communicator, ranks: Sequence[int], cores: int) -> Link | None:
    """Return the link between ranks, by gathering a few bytes and many; None where this is none of several.

    ``cores`` are those that they have together.
    """
    if len(ranks) < 2 or communicator.rank not in ranks:
        return None
    group = communicator.group(tuple(ranks))
    rounds = ceil(log2(len(ranks)))
    few, many = (_gathered(group, size, cores) for size in (len(ranks) * 8, _MESSAGE))
    moved = _MESSAGE * (len(ranks) - 1) / len(ranks)
    return Link(few / rounds, moved / max(many - few, 1e-9))


def _gathered(group: Communicator, size: int, cores: int) -> float:
    own = np.zeros(size // group.size, np.uint8)
    whole = np.zeros(own.size * group.size, np.uint8)
    return _collective(group, [lambda: group.all_gather(own, whole)], 5, cores)


def _collectives(communicator: Communicator, cores: int, pace: Pace) -> Iterator[CollectiveTimes]:
    """Yield what collectives inside a host take: by twos, fours and so on side by side, and of all its ranks."""
    ranks = communicator.host_ranks
    host = communicator.group(ranks)
    twos = [1 << place for place in range(1, len(ranks).bit_length())]
    for number in sorted({*(number for number in twos if len(ranks) % number == 0), len(ranks)} - {1}):
        for kind in COLLECTIVES:
            found, most = [], 0.0
            for size in _SIZES:
                copies = _COPIES if size <= _MESSAGE else 1
                kernels = [collective_kernel(communicator, kind, number, size) for _ in range(copies)]
                calls = min(max(_CALLED_BYTES // size, 1), _MOST_CALLS)
                # Longer messages never take less: what else would say so is noise.
                times = _FEW_TIMES if size < _MESSAGE else _TWICE
                most = max(most, _collective(host, [one.run for one in kernels], calls, cores, times))
                found.append((float(kernels[0].size), most))
            pace.sample()
            yield CollectiveTimes(kind, number, tuple(found))


def _collective(
    host: Communicator, runs: Sequence[Callable[[], object]], calls: int, cores: int, times: int = _FEW_TIMES
) -> float:
    """Return the seconds of a collective among ranks of a host, which has arrays of its own in each of ``runs``.

    Where they share cores, these are busy all the time: what counts is what all ranks compute, in turns.
    """
    for each in runs:
        each()
    copies = cycle(runs)

    def run() -> None:
        next(copies)()

    if cores >= host.size:
        return _timed(host, run, Stopwatch(), calls, times)
    spent = np.array([_timed(host, run, Stopwatch(time.thread_time), calls, times)])
    host.all_reduce(spent)
    return float(spent[0]) / cores


def _timed(together: Communicator, run: Callable[[], object], watch: Stopwatch, calls: int, times: int) -> float:
    """Return the seconds of a call, of some times; the ranks ``together`` begin at once."""
    found = []
    for _ in range(times):
        together.barrier()
        started = watch.clock()
        for _ in range(calls):
            run()
        seconds = watch.clock() - started
        found.append(seconds * watch.weight())
    return max(watch.of_some(found) / calls, 1e-9)
