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
