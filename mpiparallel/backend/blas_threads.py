"""How many threads each rank's BLAS may start, for ranks that were not started by ``mpiparallel run``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from mpiparallel.cluster.processor import threads_per_rank

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def limit_blas_threads(local_ranks: int, variables: Mapping[str, str] = os.environ) -> int | None:
    """Share the cores of this host among its ranks; return the threads of each, or None where nothing was changed.

    Unlimited, every rank starts a thread for each core: two ranks on two cores then took four times as long for a
    matrix product. What the user has set in the environment stays.
    """
    if local_ranks < 2 or any(name in variables for name in _VARIABLES):
        return None
    from threadpoolctl import threadpool_limits

    threads = threads_per_rank(len(os.sched_getaffinity(0)), local_ranks)
    threadpool_limits(threads, user_api="blas")
    return threads


def blas_threads() -> int:
    """Return how many threads a matrix product may use now."""
    return max((library.num_threads for library in _libraries().lib_controllers), default=1)


@cache
def _libraries() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
