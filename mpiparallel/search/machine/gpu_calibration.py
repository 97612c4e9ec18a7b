"""The measurement of ranks that have GPUs: what the devices take, by their own events, all of them busy at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil, log2
from typing import Any, Final

import numpy as np

from mpiparallel.backend.gpu.links import DeviceLinks
from mpiparallel.backend.products.product import Product
from mpiparallel.backend.protocol import Array, Backend
from mpiparallel.communication.protocol import Communicator
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.search.machine.collective_kernels import collective_kernel
from mpiparallel.search.machine.machine import COLLECTIVES, CollectiveTimes, Link, Machine

_EXTENTS: Final = (256, 1024, 4096, 8192)
"""Of square products, from small to as fast as they get."""
_MESSAGES: Final = (1 << 12, 1 << 16, 1 << 20, 1 << 24, 1 << 28)
_BYTES: Final = 1 << 28
"""Beyond what caches hold."""
_CACHED: Final = 1 << 20
_CALLS: Final = 100
_TIMES: Final = 5


def measure_gpus(
    communicator: Communicator,
    backend: Backend,
    extents: Sequence[int] = _EXTENTS,
    messages: Sequence[int] = _MESSAGES,
    byte_count: int = _BYTES,
) -> Machine:
    """Return the machine of these ranks' GPUs; they call it together, and it takes some seconds.

    ``extents`` are those of the products, ``messages`` the bytes of the collectives, ``byte_count`` those of a copy. A
    link that no two ranks have between them stays as it is assumed. Raises ConfigurationError where the ranks have
    their arrays in the host's memory.
    """
    links = backend.links
    if links is None:
        raise ConfigurationError("the ranks have no GPUs; calibrate without --gpu, or ask mpiparallel doctor")
    hosts = sorted(set(communicator.hosts))
    host = communicator.host_ranks
    measuring = _GpuMeasurement(communicator, backend, links)
    assumed = Machine()
    return Machine(
        hosts=len(hosts),
        ranks_per_host=ceil(communicator.size / len(hosts)),
        memory=float(links.memory_bytes),
        products=measuring.products(np.dtype(np.float32), extents),
        products_16=measuring.products(np.dtype(bfloat16), extents),
        operation_rate=_CACHED / measuring.summing(_CACHED),
        memory_bandwidth=2.0 * byte_count / measuring.copying(byte_count),
        launch=measuring.launching(),
        inside=measuring.link(host, messages) or assumed.inside,
        between=measuring.link(hosts, messages) or assumed.between,
        reduction_rate=byte_count / measuring.summing(byte_count // 4),
        collectives=tuple(measuring.collectives(host, messages)),
    )


class _GpuMeasurement:
    """Seconds of the device for what its stream is given."""

    def __init__(self, communicator: Communicator, backend: Backend, links: DeviceLinks) -> None:
        self._communicator = communicator
        self._backend = backend
        self._links = links
        self._runtime = Runtime(backend, communicator)

    def products(self, dtype: np.dtype[Any], extents: Sequence[int]) -> tuple[tuple[float, float], ...]:
        """Return operations and operations a second of square products."""
        return tuple((2.0 * extent**3, 2.0 * extent**3 / self._product(dtype, extent)) for extent in extents)

    def _product(self, dtype: np.dtype[Any], extent: int) -> float:
        # Random: a card takes less power for zeros, and is quicker.
        random = np.random.default_rng(extent)
        x, y = (self._array(random.standard_normal((extent, extent)).astype(dtype)) for _ in range(2))
        output = self._array(np.zeros((extent, extent), dtype))
        found = self._backend.products.bind(Product(x, y, output), self._runtime.scratch)
        matmul = self._backend.array_module.matmul
        return self._seconds(found or (lambda: matmul(x, y, out=output)))

    def copying(self, byte_count: int) -> float:
        """Return the seconds of a copy."""
        source, target = (self._array(np.zeros(byte_count, np.uint8)) for _ in range(2))
        return self._seconds(lambda: self._backend.array_module.copyto(target, source))

    def summing(self, count: int) -> float:
        """Return the seconds of adding so many numbers of 32 bits to others."""
        left, right = (self._array(np.zeros(count, np.float32)) for _ in range(2))
        return self._seconds(lambda: self._backend.array_module.add(left, right, out=left))

    def launching(self) -> float:
        """Return the seconds of a kernel on one element, as one of many in a graph."""
        one = self._array(np.zeros(1, np.float32))

        def work() -> None:
            for _ in range(_CALLS):
                self._backend.array_module.add(one, one, out=one)

        work()
        return self._seconds(self._backend.capture(work)) / _CALLS

    def link(self, ranks: Sequence[int], messages: Sequence[int]) -> Link | None:
        """Return the link between ranks, by gathering a few bytes and many; None where this is none of several."""
        if len(ranks) < 2 or self._communicator.rank not in ranks:
            return None
        group = self._communicator.group(tuple(ranks))
        transport = self._runtime.transport(group.ranks)

        def gathered(size: int) -> float:
            own = self._array(np.zeros(size // len(ranks), np.uint8))
            whole = self._array(np.zeros(own.size * len(ranks), np.uint8))
            return self._seconds(transport.all_gather(own, whole).run, group)

        few, many = (gathered(size) for size in (messages[0], messages[-1]))
        moved = messages[-1] * (len(ranks) - 1) / len(ranks)
        return Link(few / ceil(log2(len(ranks))), moved / max(many - few, 1e-9))

    def collectives(self, host: Sequence[int], messages: Sequence[int]) -> Iterator[CollectiveTimes]:
        """Yield what collectives inside a host take: by twos, fours and so on side by side, and of all its ranks."""
        twos = [1 << place for place in range(1, len(host).bit_length())]
        together = self._communicator.group(tuple(host))
        for ranks in sorted({*(number for number in twos if len(host) % number == 0), len(host)} - {1}):
            for kind in COLLECTIVES:
                found, most = [], 0.0
                for size in messages:
                    kernel = collective_kernel(self._communicator, kind, ranks, size, self._backend)
                    # Longer messages never take less: what else would say so is noise.
                    most = max(most, self._seconds(kernel.run, together))
                    found.append((float(kernel.size), most))
                yield CollectiveTimes(kind, ranks, tuple(found))

    def _seconds(self, work: Callable[[], object], together: Communicator | None = None) -> float:
        """Return the seconds of the slowest of some ranks, by default of all, the least of some times."""
        ranks = together or self._communicator
        work()
        self._backend.synchronize()
        best = np.full(1, np.inf)
        for _ in range(_TIMES):
            ranks.barrier()
            best[0] = min(best[0], self._links.seconds(self._backend.compute, work))
        ranks.all_reduce(best, "max")
        return max(float(best[0]), 1e-9)

    def _array(self, values: np.ndarray[Any, Any]) -> Array:
        return self._backend.from_host(values, "what is measured")
