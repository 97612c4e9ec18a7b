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
from mpiparallel.graph.execution.runtime import Runtime
from tests.conformance.cuda_emulator.emulator import EmulatedBackend, EmulatedKernels
from tests.conformance.cuda_emulator.written_cases import CASES

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


def texts(case: str, folder: Path) -> dict[str, str]:
    """Return what a case of the written kernels binds."""
    kernels = EmulatedKernels(folder)
    CASES[case](Runtime(EmulatedBackend(kernels)))
    return kernels.texts


def test_a_card_before_ampere_is_told_in_one_line_what_it_lacks(folder: Path, tmp_path: Path) -> None:
    kernels = CudaKernels(Module, "sm_75", np.asarray)
    multiplying = {
        name: text for name, text in texts("attention by tensor cores", tmp_path).items() if "mma.sync" in text
    }
    assert multiplying
    for name, text in multiplying.items():
        with pytest.raises(ConfigurationError) as caught:
            kernels.bind(name, text, 1, 32, ())
        told = str(caught.value)
        assert told.startswith("this GPU has compute capability 7.5, and kernels of tensor cores")
        assert "amp_level='O0'" in told
        assert "\n" not in told


def test_a_card_before_ampere_takes_what_needs_no_tensor_cores(folder: Path, tmp_path: Path) -> None:
    kernels = CudaKernels(Module, "sm_75", np.asarray)
    for name, text in texts("cross entropy of bfloat16", tmp_path).items():
        kernels.bind(name, text, 1, 32, ())


def test_what_a_newer_card_refuses_is_said_by_the_compiler(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="refuses a kernel for sm_90"):
        CudaKernels(Module, "sm_90", np.asarray).bind("twice", TEXT.replace("threadIdx", "nothing"), 1, 32, ())
