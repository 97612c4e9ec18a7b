"""BLAS threads of ranks that nobody has limited."""

from __future__ import annotations

import os

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from mpiparallel.backend.blas_threads import blas_threads, limit_blas_threads


def threads_of_each_library():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_ranks_of_a_host_share_its_cores() -> None:
    assert np.ones((2, 2)) @ np.ones((2, 2)) is not None
    cores = len(os.sched_getaffinity(0))
    with threadpool_limits(cores, user_api="blas"):
        assert limit_blas_threads(cores, {}) == 1
        assert threads_of_each_library() == {1}
        assert blas_threads() == 1


def test_what_the_user_has_set_stays_and_a_rank_alone_is_not_limited() -> None:
    before = threads_of_each_library()
    assert limit_blas_threads(4, {"OMP_NUM_THREADS": "3"}) is None
    assert limit_blas_threads(1, {}) is None
    assert threads_of_each_library() == before
