"""What must be the same on all hosts of a job, or may explain why they differ."""

from __future__ import annotations

import platform
import socket
from importlib.metadata import PackageNotFoundError, version

from mpiparallel.cluster.processor import openblas_core_type
from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.version import VERSION


def facts_of(machine: ExaminedMachine) -> dict[str, str]:
    """Return the facts of ``machine`` in words, each empty where it is not known."""
    return {
        "host": socket.gethostname(),
        "mpiparallel": VERSION,
        "mpi": machine.mpi.library,
        "python": platform.python_version(),
        "numpy": _version("numpy"),
        "kernels": openblas_core_type(machine.text("proc/cpuinfo")) or "chosen by OpenBLAS",
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
