"""What a report of the tests must say to be read elsewhere: which Python, NumPy, BLAS and MPI ran them.

No test finds what a killed mpirun of another has left.
"""

from __future__ import annotations

import gc
import os
import platform
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_info

from mpiparallel.compatibility.remark import forget_remarks
from mpiparallel.launch.rank.left_sessions import remove_left_sessions

# How long a machine takes for an example, or to make one, says nothing about the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def _no_left_sessions() -> None:
    """Tests start mpirun thousands of times and kill many; where process numbers come round, some would not start."""
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
    """Look for no garbage while all tests are imported, nor later in what was imported: there is none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


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
