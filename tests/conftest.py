"""What a report of the tests must say to be read elsewhere: which Python, NumPy, BLAS and MPI ran them.

No test finds what a killed mpirun of another has left.
"""

from __future__ import annotations

import gc
import linecache
import os
import platform
import random
import re
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import numpy as np
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from mpiparallel.compatibility.remark import forget_remarks
from mpiparallel.launch.rank.left_sessions import remove_left_sessions

# How long a machine takes for an example, or to make one, says nothing about the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

COLLECTED_AFTER = (20_000, 20, 50)
"""Objects until the youngest are looked at, and how many such looks until older ones are."""

REAL_RANKS = ("mpi", "cluster", "tutorial", "samples")
"""The markers of tests that start mpirun."""


class _LastCollection:
    """Looks at all objects once, when all tests are done; pytest and the end of Python would do so several times.

    What a worker of xdist finds then reaches nobody, so it does not look.
    """

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if "PYTEST_XDIST_WORKER" not in os.environ:
            gc.collect()
        gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled loops and measurements in the checkout: the user's own measured machine changes no test."""
    os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / "build" / "cache"))
    config.pluginmanager.register(_LastCollection())


def pytest_xdist_auto_num_workers() -> int | None:
    """Let one worker more run tests than there are processors: they wait for a sixth of their time."""
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests start mpirun thousands of times and kill many; where process numbers come round, some would not start."""
    if any(map(item.get_closest_marker, REAL_RANKS)):
        remove_left_sessions()


@pytest.fixture
def remarks(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Return what tells the remarks of a new process so far, without the name of the package before them."""
    forget_remarks()
    return lambda: [record.args[0] for record in caplog.records if record.name == "mpiparallel.remark"]


@pytest.fixture
def heeded_interrupts() -> Iterator[None]:
    """Let SIGINT interrupt this process and those that it starts, also where tests run under nohup or with ``&``."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while all tests are imported; what was imported counts as old then.

    Nothing stays frozen: a pause of the collector (``collector_paused``) would leave what was made in it young, and the
    next collection would walk over it. Tests make millions of objects and few cycles, so Python's own thresholds cost a
    tenth of their time.
    """
    # hypothesis looks at all objects before its first example: they are few now, and many once the tests are imported.
    given(st.none())(lambda nothing: None)()
    gc.disable()
    try:
        return (yield)
    finally:
        # Each example looks whether the files of all lines that are kept have changed.
        linecache.clearcache()
        gc.freeze()
        gc.unfreeze()
        gc.set_threshold(*COLLECTED_AFTER)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests in an order drawn from ``MPIPARALLEL_TEST_ORDER`` where that is set, the same for all workers."""
    _mark_samples(items)
    if seed := os.environ.get("MPIPARALLEL_TEST_ORDER"):
        random.Random(seed).shuffle(items)


def _mark_samples(items: list[pytest.Item]) -> None:
    """Mark what ``make test`` runs of the samples: each with the MPI library that it names, or one in turns."""
    samples: dict[str, list[pytest.Item]] = {}
    for item in items:
        if (marker := item.get_closest_marker("sample")) and all(library in item.nodeid for library in marker.args):
            samples.setdefault(re.sub("openmpi|mpich", "", item.nodeid), []).append(item)
    for turn, libraries in enumerate(samples.values()):
        libraries[turn % len(libraries)].add_marker("sampled")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for no examples in a file of tests that has no prompt: to import and search all takes each worker seconds.

    Of the package each file is searched: some docstrings are put together when it is imported.
    """
    found = yield
    if any(isinstance(one, DoctestModule) for one in found) and b">>>" not in file_path.read_bytes():
        return [one for one in found if not isinstance(one, DoctestModule)]
    return found


def pytest_report_header() -> list[str]:
    """Name the numeric libraries, and the interpreters whose MPI runs the tests of real ranks."""
    named = os.environ.get("MPIPARALLEL_TEST_PYTHONS")
    interpreters = named.split(os.pathsep) if named else [sys.executable]
    return [
        f"python {platform.python_version()}, numpy {np.__version__}, {_blas()}, {os.cpu_count()} cores",
        *(f"mpi: {_mpi(Path(interpreter))} of {interpreter}" for interpreter in interpreters),
    ]


def _blas() -> str:
    found = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    described = (
        f"{pool['internal_api']} {pool['version']} ({pool.get('architecture')}, {pool['num_threads']} threads)"
        for pool in found
    )
    return ", ".join(dict.fromkeys(described)) or "no BLAS that threadpoolctl knows"


def _mpi(interpreter: Path) -> str:
    """Tell by files: loading an MPI library only to ask its name could hang before the first test."""
    if not interpreter.exists():
        return "MISSING INTERPRETER"
    if (interpreter.parent / "mpichversion").exists():
        return "MPICH"
    return "Open MPI" if (interpreter.parent / "ompi_info").exists() else "the MPI on PATH"
