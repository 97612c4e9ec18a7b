"""Print, as JSON, what CuPy says of GPUs, driver and NCCL, after one sum on each device."""

from __future__ import annotations

import importlib
import json
from typing import Any

from mpiparallel.backend.gpu.cudnn_library import find_cudnn
from mpiparallel.backend.gpu.diagnosis import explained, problem_here, too_old_for_16_bits
from mpiparallel.errors import ConfigurationError


def main() -> None:
    """Import CuPy, count devices, use them, ask for NCCL; a line each, as any of it may crash."""
    problem = problem_here()
    if problem is not None:
        _say(problem=problem)
        return
    cupy = importlib.import_module("cupy")
    _say(cupy=cupy.__version__)
    runtime = cupy.cuda.runtime
    _say(driver=runtime.driverGetVersion(), runtime=runtime.runtimeGetVersion())
    _say(devices=runtime.getDeviceCount())
    numbers = range(runtime.getDeviceCount())
    _say(own=len({runtime.deviceGetPCIBusId(number) for number in numbers}))
    for device in numbers:
        try:
            with cupy.cuda.Device(device):
                _say(device=device, total=float(cupy.ones(1000).sum()))
        except RuntimeError as error:
            _say(problem=f"GPU {device}: {explained(error)}")
            continue
        too_old = too_old_for_16_bits(cupy.cuda.Device(device).compute_capability)
        if too_old is not None:
            _say(too_old=f"GPU {device} {too_old}")
    nccl = importlib.import_module("cupy.cuda.nccl")
    _say(nccl=nccl.get_version() if nccl.available else 0)
    _say(**_cudnn())


def _cudnn() -> dict[str, Any]:
    """Return cuDNN's version, nothing where it is not installed, or why it cannot be used."""
    try:
        library = find_cudnn()
        if library is None:
            return {}
        library.destroy_handle(library.create_handle())
    except (ConfigurationError, RuntimeError) as error:
        return {"cudnn_problem": " ".join(str(error).split())}
    return {"cudnn": library.backend_version_string()}


def _say(**words: Any) -> None:
    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    main()
