"""CUDA texts compiled once for a device and kept for other processes, with a stand-in for CuPy's modules."""

from __future__ import annotations

import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend import cuda_kernels
from mpiparallel.backend.cuda_kernels import CudaKernels
from mpiparallel.backend.nvrtc import Nvrtc
from mpiparallel.backend.protocol import AddressTable
from mpiparallel.errors import ConfigurationError

TEXT = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }'


class Module:
    """What CuPy's module does, without a device."""

    def load(self, code: bytes) -> None:
        self.code = code

    def get_function(self, name: str) -> Any:
        return lambda *given: (name, self.code[:4], *given)


class Array(SimpleNamespace):
    """What CuPy's array tells of its memory."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    try:
        Nvrtc()
    except ConfigurationError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(cuda_kernels, "cache_folder", lambda: tmp_path / "kept")
    return tmp_path / "kept"


def test_a_launch_calls_the_compiled_function_with_its_arguments(folder: Path) -> None:
    launch = CudaKernels(Module, "sm_90", np.asarray).bind("twice", TEXT, 3, 64, ("x",))
    assert launch() == ("twice", b"\x7fELF", (3,), (64,), ("x",))


def test_a_text_is_compiled_once_for_all_processes_of_a_device(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CudaKernels(Module, "sm_90", np.asarray).bind("twice", TEXT, 1, 32, ())
    (kept,) = folder.iterdir()
    monkeypatch.setattr(Nvrtc, "compile", lambda *_: pytest.fail("compiled again"))
    CudaKernels(Module, "sm_90", np.asarray).bind("twice", TEXT, 1, 32, ())
    assert kept.read_bytes()[:4] == b"\x7fELF"
    with pytest.raises(pytest.fail.Exception, match="compiled again"):
        CudaKernels(Module, "sm_80", np.asarray).bind("twice", TEXT, 1, 32, ())


def test_a_folder_that_cannot_be_written_costs_time_only(folder: Path) -> None:
    folder.write_text("a file")
    assert CudaKernels(Module, "sm_80", np.asarray).bind("twice", TEXT, 1, 32, ())()[0] == "twice"


def test_a_table_of_arrays_is_their_addresses_in_the_devices_memory(folder: Path) -> None:
    arrays = tuple(SimpleNamespace(data=SimpleNamespace(ptr=address)) for address in (4096, 1 << 40))
    launch = CudaKernels(Module, "sm_90", lambda host: ("copied", host)).bind(
        "twice", TEXT, 1, 32, (AddressTable(arrays), 5)
    )
    (copied, host), number = launch()[-1]
    assert (copied, host.dtype, host.tolist(), number) == ("copied", np.uint64, [4096, 1 << 40], 5)


def test_arrays_of_a_table_live_as_long_as_the_launch(folder: Path) -> None:
    array = Array(data=SimpleNamespace(ptr=4096))
    seen = weakref.ref(array)
    launch = CudaKernels(Module, "sm_90", np.asarray).bind("twice", TEXT, 1, 32, (AddressTable((array,)),))
    del array
    assert seen() is not None
    del launch
    assert seen() is None
