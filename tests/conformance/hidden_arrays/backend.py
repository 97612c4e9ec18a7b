"""CuPy's backend on the library that hides its arrays: the code that runs on GPUs, without one."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from mpiparallel.backend.cupy_backend import CupyBackend
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.compile import bind
from tests.conformance.hidden_arrays.library import hidden_library


def install(patch: pytest.MonkeyPatch, kernels: Any = None) -> None:
    """Let ``cupy`` be the hidden library, and backends of a GPU compile their texts by ``kernels``, or none."""
    patch.setitem(sys.modules, "cupy", hidden_library())
    patch.setattr(bind, "make_backend", lambda configuration: _make(configuration.device_target, kernels))


def hidden_backend(kernels: Any = None) -> CupyBackend:
    """Return a backend; ``install`` comes before."""
    made = CupyBackend()
    made.kernels = kernels
    return made


def _make(target: str, kernels: Any) -> Any:
    return hidden_backend(kernels) if target == "GPU" else NumpyBackend()
