"""What a device target means on this machine."""

from __future__ import annotations

from typing import Any, Final

from mpiparallel.backend.gpu.diagnosis import gpu_problem
from mpiparallel.compatibility.remark import remark
from mpiparallel.context.simulation import current_simulation
from mpiparallel.errors import ConfigurationError

CPU: Final = "CPU"
GPU: Final = "GPU"
_ASCEND: Final = "Ascend"


def device_of_target(target: Any, where: str) -> str:
    """Return "CPU" or "GPU", which the ``target`` that ``where`` was given means here; "Ascend" is what there is, in
    a simulation a GPU.

    Raises ConfigurationError for another target, and for a GPU that this rank does not have.

    >>> device_of_target("CPU", "set_context")
    'CPU'
    """
    if current_simulation() is not None and target in (GPU, _ASCEND):
        return GPU
    if target == _ASCEND:
        found = CPU if gpu_problem() else GPU
        remark(f"{where}: device_target 'Ascend' means the {found} of each rank here")
        return found
    if target not in (CPU, GPU):
        raise ConfigurationError(f"{where}: device_target {target!r} is not one of 'CPU', 'GPU', 'Ascend'")
    problem = gpu_problem() if target == GPU else None
    if problem:
        raise ConfigurationError(f"{where}: {problem}")
    return str(target)


def remark_eager_mode(where: str) -> None:
    """Say that in PyNative mode operators that are called one by one do not run on the GPU."""
    remark(f"{where}: in PYNATIVE_MODE operators are computed on the CPU; with GRAPH_MODE networks run on the GPU")
