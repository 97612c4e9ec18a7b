"""NVIDIA's libraries, opened where their wheels or CUDA's own folders have them."""

from __future__ import annotations

import ctypes
from typing import Final

from mpiparallel.errors import ConfigurationError

_MISSING: Final = (
    "device_target='GPU' needs {title}, which is not to be had: {why}; pip install 'mpiparallel[cuda12x]' (or cuda13x)"
)


def nvidia_library(name: str, title: str) -> ctypes.CDLL:
    """Return the library that cuda-pathfinder calls ``name``.

    Raises ConfigurationError, which calls it by its ``title``, where it is not found.
    """
    try:
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib  # comes with CuPy's extras
    except ImportError:
        why = "there is no cuda-pathfinder to find it"
        raise ConfigurationError(_MISSING.format(title=title, why=why)) from None
    try:
        return ctypes.CDLL(load_nvidia_dynamic_lib(name).abs_path)
    except (DynamicLibNotFoundError, OSError) as error:
        raise ConfigurationError(_MISSING.format(title=title, why=" ".join(str(error).split()))) from error
