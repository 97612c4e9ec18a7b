"""Real MPI ranks for tests. The pytest process itself never loads MPI."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance import patience
from tests.conformance.mpi_launcher import environment, interpreters, launcher, library

MpiRun = Callable[..., str]


@pytest.fixture(params=interpreters(), ids=library)
def mpi_python(request: pytest.FixtureRequest) -> Path:
    """The interpreter whose MPI is tested; ``MPIPARALLEL_TEST_PYTHONS`` names several, with ``os.pathsep`` between."""
    interpreter: Path = request.param
    return interpreter


@pytest.fixture
def mpi_run(mpi_python: Path, pytestconfig: pytest.Config, tmp_path: Path) -> MpiRun:
    """Start ranks: ``mpi_run(size, module_or_path, *args, fails=False)`` returns what they print.

    Size 0 starts the program without a launcher. The test fails if the ranks hang, or end badly; with
    ``fails``, if they end well.
    """

    def run(size: int, program: str | Path, *args: object, fails: bool = False) -> str:
        launch = [launcher(mpi_python), "-n", str(size)] if size else []
        what = [str(program)] if str(program).endswith(".py") else ["-m", str(program)]
        process = subprocess.Popen(
            [*launch, str(mpi_python), *what, *map(str, args)],
            cwd=tmp_path,
            env=environment(pytestconfig.rootpath),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        output = patience.communicated(process)[0]
        assert (process.returncode != 0) == fails, f"{process.args!r} ended with {process.returncode}:\n{output}"
        return output

    return run
