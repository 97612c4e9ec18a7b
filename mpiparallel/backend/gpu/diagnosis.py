"""Why a process cannot compute on a GPU, and what mends it: one line for each thing that is known to go wrong."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Mapping
from typing import Any, Final

from mpiparallel.backend.gpu.rule import take_own_part

_ELSE: Final = "set device_target='CPU'"
_FIRST_DRIVER: Final = {12: "525", 13: "580"}
"""The first driver for each major version of CUDA."""

_AMPERE: Final = 80

_CAUSES: Final = {
    2: "there is no memory left on it for another process; nvidia-smi shows who has it",
    3: "CUDA cannot be started in a process that was forked after CUDA was; start ranks by mpirun",
    35: "the driver is older than CuPy's CUDA; update the driver, or install CuPy for an older CUDA",
    46: (
        "it is busy: another process has it, and its mode allows one alone; nvidia-smi -c DEFAULT (as root) lets "
        "several in, or give each rank a GPU of its own"
    ),
    100: "no GPU is visible to this process; look at CUDA_VISIBLE_DEVICES, and at nvidia-smi",
    101: "there is no GPU of that number; look at CUDA_VISIBLE_DEVICES and DEVICE_ID",
    802: "the switch between the GPUs is not ready; systemctl start nvidia-fabricmanager",
    803: "the driver was updated while it is in use; restart the machine",
    804: "the compatibility libraries of CUDA do not serve this GPU; take them out of LD_LIBRARY_PATH",
}


@functools.cache
def installed_wheels() -> dict[str, str]:
    """Return the versions of CuPy's and NVIDIA's wheels by name."""
    import importlib.metadata  # slow to import: only when something is wrong

    names = ((one.metadata["Name"] or "", one.version) for one in importlib.metadata.distributions())
    return {name.lower(): version for name, version in names if name.lower().startswith(("cupy", "nvidia-"))}


def wheel_problem(wheels: Mapping[str, str]) -> str | None:
    """Return what is wrong with the wheels that are installed, None if nothing is.

    >>> wheel_problem({"cupy-cuda12x": "14.2.0", "nvidia-cuda-nvrtc-cu12": "12.9.86"})
    >>> wheel_problem({"cupy-cuda12x": "14.2.0", "nvidia-cuda-nvrtc": "13.0.1"})
    "CuPy is for CUDA 12, NVRTC for CUDA 13; pip install 'mpiparallel[cuda12x]'"
    """
    cupys = sorted(name for name in wheels if name.startswith("cupy-cuda"))
    if len(cupys) > 1:
        return (
            f"{' and '.join(cupys)} are both installed, and each writes over the other; "
            f"pip uninstall -y {' '.join(cupys)}, then pip install 'mpiparallel[cuda12x]' or [cuda13x]"
        )
    if not cupys:
        return None
    major = cupys[0].removeprefix("cupy-cuda")[:2]
    compilers = {name: wheels[name].partition(".")[0] for name in wheels if name.startswith("nvidia-cuda-nvrtc")}
    if compilers and major not in compilers.values():
        (found, *_) = compilers.values()
        return f"CuPy is for CUDA {major}, NVRTC for CUDA {found}; pip install 'mpiparallel[cuda{major}x]'"
    return None


def gpu_problem() -> str | None:
    """Return why this process cannot compute on a GPU, and what to do about it; None where it can."""
    problem = problem_here()
    return None if problem is None else f"device_target='GPU', but {problem}; or {_ELSE}"


def problem_here() -> str | None:
    """Return the same for those who ask whether there is one."""
    # Before CUDA starts in this process, which is when it is first asked for devices.
    take_own_part(os.environ)
    try:
        cupy = importlib.import_module("cupy")  # an optional extra, and slow to import: only when a GPU is asked for
    except ModuleNotFoundError:
        return "CuPy is not installed; pip install 'mpiparallel[cuda12x]' (or cuda13x)"
    except ImportError as error:
        return f"CuPy cannot be loaded ({_first_line(error)}); {wheel_problem(installed_wheels()) or 'install it anew'}"
    if not cupy.cuda.is_available():
        return wheel_problem(installed_wheels()) or driver_problem(cupy.cuda.runtime, os.environ)
    return wheel_problem(installed_wheels())


def driver_problem(runtime: Any, variables: Mapping[str, str]) -> str:
    """Return why CuPy's CUDA ``runtime`` finds no device."""
    driver, wanted = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    if not driver:
        return "no driver of NVIDIA is loaded on this machine; install it (nvidia-smi then lists the GPUs)"
    major = wanted // 1000
    if driver // 1000 < major:
        first = _FIRST_DRIVER.get(major, "of this year")
        return (
            f"the driver is for CUDA {_shown(driver)}, CuPy for CUDA {_shown(wanted)}; update the driver to {first} or "
            "later, or install CuPy for the older CUDA"
        )
    try:
        runtime.getDeviceCount()
    except RuntimeError as error:
        return explained(error)
    given = variables.get("CUDA_VISIBLE_DEVICES")
    told = "" if given is None else f"; CUDA_VISIBLE_DEVICES is {given!r}: unset it, or name GPUs of nvidia-smi -L"
    return f"CuPy finds no GPU on this machine{told}"


def too_old_for_16_bits(capability: str) -> str | None:
    """Return what a GPU lacks for kernels of 16 bits and of TF32, and what to do about it; None where it has all.

    >>> too_old_for_16_bits("90")
    """
    if int(capability) >= _AMPERE:
        return None
    return (
        f"has compute capability {capability[:-1]}.{capability[-1]}, and kernels of tensor cores (float16, bfloat16, "
        "TF32) want 8.0 (Ampere) or later; train in float32: amp_level='O0', no allow_tf32 in gpu_config"
    )


def explained(error: BaseException) -> str:
    """Return what an error of CUDA means where that is known, and its own words."""
    cause = _CAUSES.get(getattr(error, "status", 0))
    return f"{_first_line(error)}: {cause}" if cause else _first_line(error)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _shown(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"
