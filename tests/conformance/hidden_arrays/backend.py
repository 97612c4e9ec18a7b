"""CuPy's backend on the library that hides its arrays: the code that runs on GPUs, without one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import pytest

from mpiparallel.backend.cupy_backend import CupyBackend
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.compile import bind
from mpiparallel.train.elastic import resharding
from tests.conformance.hidden_arrays.library import hidden_library


def install(patch: pytest.MonkeyPatch, kernels: Any = None, targets: Sequence[str] = ("GPU",)) -> None:
    """Let ``cupy`` be the hidden library, and backends of a GPU compile their texts by ``kernels``, or none.

    ``targets`` are those of which the device is one.
    """

    def make(configuration: Any) -> Any:
        return hidden_backend(kernels) if configuration.device_target in targets else NumpyBackend()

    patch.setitem(sys.modules, "cupy", hidden_library())
    for module in (bind, resharding):
        patch.setattr(module, "make_backend", make)


def hidden_backend(kernels: Any = None) -> CupyBackend:
    """Return a backend; ``install`` comes before."""
    made = CupyBackend()
    made.kernels = kernels
    return made
