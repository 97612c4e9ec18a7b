"""NVIDIA's libraries where they are not to be had, or say no."""

from __future__ import annotations

import ctypes
import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.backend import nvrtc
from mpiparallel.backend.gpu.cudnn_graphs import CudnnGraphs
from mpiparallel.backend.nvidia_library import nvidia_library
from mpiparallel.errors import ConfigurationError


def test_without_cuda_pathfinder_a_library_is_not_found_and_what_to_install_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    with pytest.raises(ConfigurationError) as caught:
        nvidia_library("nvrtc", "NVRTC")
    assert str(caught.value) == (
        "device_target='GPU' needs NVRTC, which is not to be had: there is no cuda-pathfinder to find it; "
        "pip install 'mpiparallel[cuda12x]' (or cuda13x)"
    )


class Words:
    restype: Any = None

    def __call__(self, code: int) -> bytes:
        assert self.restype is ctypes.c_char_p
        return f"words for {code}".encode()


def test_nvrtc_is_quoted_where_a_call_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    library = SimpleNamespace(nvrtcVersion=lambda *numbers: 3, nvrtcGetErrorString=Words())
    monkeypatch.setattr(nvrtc, "nvidia_library", lambda name, title: library)
    with pytest.raises(ConfigurationError, match=r"^NVRTC: nvrtcVersion gave 3, words for 3$"):
        nvrtc.Nvrtc()


def test_cudnn_without_a_handle_says_why_and_how_to_do_without() -> None:
    def refuse() -> Any:
        raise RuntimeError("CUDNN_STATUS_NOT_INITIALIZED\n  no driver")

    graphs = CudnnGraphs(id, lambda: 0, {}, "MPIPARALLEL_ATTENTION", lambda: SimpleNamespace(create_handle=refuse))
    said = "cuDNN cannot be used: CUDNN_STATUS_NOT_INITIALIZED no driver; mpiparallel doctor says more, or set "
    with pytest.raises(ConfigurationError, match=f"^{re.escape(said)}MPIPARALLEL_ATTENTION=own$"):
        graphs._handle  # noqa: B018


class FakedNvrtc:
    """NVRTC as a library of C: it compiles into the options that it was given, and refuses a text that says so."""

    def __init__(self) -> None:
        self.destroyed = 0
        self._text, self._options = b"", b""

    def nvrtcVersion(self, major: Any, minor: Any) -> int:  # noqa: N802
        major._obj.value, minor._obj.value = 12, 9
        return 0

    def nvrtcCreateProgram(self, program: Any, text: bytes, *others: Any) -> int:  # noqa: N802
        assert others == (b"mpiparallel.cu", 0, None, None)
        self._text = text
        return 0

    def nvrtcCompileProgram(self, program: Any, count: int, options: Any) -> int:  # noqa: N802
        assert len(options) == count
        self._options = b" ".join(options)
        return 6 if b"refuse" in self._text else 0

    def nvrtcGetProgramLogSize(self, program: Any, size: Any) -> int:  # noqa: N802
        return self._size(size, self._log)

    def nvrtcGetProgramLog(self, program: Any, memory: Any) -> int:  # noqa: N802
        return self._fill(memory, self._log)

    def nvrtcGetCUBINSize(self, program: Any, size: Any) -> int:  # noqa: N802
        return self._size(size, self._options)

    def nvrtcGetCUBIN(self, program: Any, memory: Any) -> int:  # noqa: N802
        return self._fill(memory, self._options)

    def nvrtcDestroyProgram(self, program: Any) -> int:  # noqa: N802
        self.destroyed += 1
        return 0

    @property
    def _log(self) -> bytes:
        return b"log of " + self._text + b"\0"

    @staticmethod
    def _size(size: Any, content: bytes) -> int:
        size._obj.value = len(content)
        return 0

    @staticmethod
    def _fill(memory: Any, content: bytes) -> int:
        memory[: len(content)] = content
        return 0


def test_a_text_is_compiled_for_an_architecture_as_numpy_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakedNvrtc()
    monkeypatch.setattr(nvrtc, "nvidia_library", lambda name, title: library if name == "nvrtc" else None)
    compiler = nvrtc.Nvrtc()
    found = compiler.compile("text", "sm_90")
    assert compiler.version == "12.9"
    assert found.log == "log of text"
    assert found.machine_code == (
        b"--gpu-architecture=sm_90 -std=c++17 --ftz=false --prec-div=true --prec-sqrt=true --fmad=true -Xptxas=-v"
    )
    assert library.destroyed == 1


def test_a_text_that_is_refused_is_shown_with_the_words_of_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakedNvrtc()
    monkeypatch.setattr(nvrtc, "nvidia_library", lambda name, title: library)
    with pytest.raises(ConfigurationError) as caught:
        nvrtc.Nvrtc().compile("refuse this", "sm_80")
    assert str(caught.value) == "NVRTC 12.9 refuses a kernel for sm_80: log of refuse this\nrefuse this"
    assert library.destroyed == 1


@pytest.mark.parametrize("error", [OSError("cannot\n  open it"), "not found"])
def test_a_library_that_cannot_be_opened_is_told_with_what_to_install(
    error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NotFoundError(Exception):
        """What cuda-pathfinder raises."""

    def load(name: str) -> Any:
        if isinstance(error, str):
            raise NotFoundError(f"{name} {error}")
        return SimpleNamespace(abs_path="/lib/libnvrtc.so")

    def opened(path: str) -> Any:
        assert path == "/lib/libnvrtc.so"
        raise error

    pathfinder: Any = SimpleNamespace(DynamicLibNotFoundError=NotFoundError, load_nvidia_dynamic_lib=load)
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", pathfinder)
    monkeypatch.setattr(ctypes, "CDLL", opened)
    with pytest.raises(ConfigurationError) as caught:
        nvidia_library("nvrtc", "NVRTC")
    why = "nvrtc not found" if isinstance(error, str) else "cannot open it"
    assert str(caught.value) == (
        f"device_target='GPU' needs NVRTC, which is not to be had: {why}; "
        "pip install 'mpiparallel[cuda12x]' (or cuda13x)"
    )
