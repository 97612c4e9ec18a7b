"""BLAS threads of ranks that nobody has limited."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from mpiparallel.backend import blas_threads as module
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


@pytest.mark.parametrize(("cores", "ranks", "threads"), [(8, 2, 4), (8, 3, 2), (2, 2, 1), (2, 8, 1)])
def test_each_rank_has_its_whole_share_of_the_cores_and_one_at_least(
    cores: int, ranks: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)) if process == 0 else set())
    with threadpool_limits(1, user_api="blas"):
        assert limit_blas_threads(ranks, {"PATH": "/bin"}) == threads
        assert blas_threads() == threads


@pytest.mark.parametrize("name", ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"])
def test_each_variable_of_a_library_of_products_counts(name: str) -> None:
    before = blas_threads()
    assert limit_blas_threads(2, {name: "1"}) is None
    assert blas_threads() == before


def test_without_a_library_of_products_a_product_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_libraries", lambda: SimpleNamespace(lib_controllers=[]))
    assert blas_threads() == 1
