"""What a rank spends, by the clock, or of a processor as quick as it usually is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

import numpy as np

from mpiparallel.communication.protocol import Communicator
from mpiparallel.dataclass import dataclass

EXTENT: Final = 512
"""Of the product that tells the pace of a core."""
_SAMPLES: Final = 5


@dataclass(frozen=True)
class Stopwatch:
    """A ``clock``, whose seconds count as much as the pace of a core asks for.

    A core is slower for seconds where others use what it shares with them, or where it is hot. A product of matrices
    and the kernels of convolutions then take half as long again, each alike. ``product`` are the seconds that a product
    usually takes: what a rank spends counts as if it took so long all the time. Without it, what the clock says counts.
    """

    clock: Callable[[], float] = time.perf_counter
    product: float | None = None

    def weight(self) -> float:
        """Return what a second that has just passed counts."""
        return 1.0 if self.product is None else self.product / max(product_seconds(self.clock), 1e-9)

    def of_some(self, seconds: Sequence[float]) -> float:
        """Return what counts of seconds that were taken several times.

        It is the least by a clock, which only what disturbs makes longer. A weight errs either way, so else it is the
        median.
        """
        return min(seconds) if self.product is None else median(seconds)


class Pace:
    """What a product of matrices takes on a rank's processor from time to time; ``usual`` are seconds, of all ranks."""

    def __init__(self) -> None:
        self._samples: list[float] = []
        self.usual: float | None = None

    def sample(self) -> None:
        """See what it takes now."""
        self._samples.append(product_seconds(time.thread_time))

    def watch(self, communicator: Communicator) -> Stopwatch:
        """Return the watch of what a rank spends; the ranks call it together, and share what is usual."""
        communicator.barrier()
        for _ in range(_SAMPLES):
            self.sample()
        own = np.array([median(self._samples)])
        communicator.all_reduce(own)
        self.usual = float(own[0]) / communicator.size
        return Stopwatch(time.thread_time, self.usual)


def product_seconds(clock: Callable[[], float]) -> float:
    """Return what a product of matrices takes now that has its operands in the caches."""
    one = np.full((EXTENT, EXTENT), 0.5, np.float32)
    out = np.empty_like(one)
    np.matmul(one, one, out=out)
    begun = clock()
    np.matmul(one, one, out=out)
    return clock() - begun
