"""What goes wrong with a GPU is told in one line with what mends it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.gpu import diagnosis
from mpiparallel.backend.gpu.diagnosis import (
    driver_problem,
    explained,
    gpu_problem,
    installed_wheels,
    too_old_for_16_bits,
    wheel_problem,
)
from mpiparallel.errors import ConfigurationError, DeviceMemoryError
from tests.conformance.hidden_arrays.backend import hidden_backend, install
from tests.conformance.hidden_arrays.stream import DEVICE


class FakedCudaError(RuntimeError):
    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


def runtime(driver: int, wanted: int = 12090, count: Any = lambda: 0) -> Any:
    return SimpleNamespace(driverGetVersion=lambda: driver, runtimeGetVersion=lambda: wanted, getDeviceCount=count)


def raising(status: int, words: str) -> Any:
    def count() -> int:
        raise FakedCudaError(status, words)

    return count


@pytest.mark.parametrize(
    ("found", "variables", "words"),
    [
        (runtime(0), {}, ["no driver of NVIDIA is loaded", "install it"]),
        (runtime(11080), {}, ["driver is for CUDA 11.8, CuPy for CUDA 12.9", "update the driver to 525 or later"]),
        (runtime(12080, 13000), {}, ["CUDA 12.8, CuPy for CUDA 13.0", "580 or later", "CuPy for the older CUDA"]),
        (runtime(12080, count=raising(100, "cudaErrorNoDevice")), {}, ["cudaErrorNoDevice: no GPU is visible"]),
        (runtime(12080, count=raising(803, "mismatch")), {}, ["mismatch: the driver was updated", "restart"]),
        (runtime(12080, count=raising(9999, "odd")), {}, ["odd"]),
        (runtime(12080), {"CUDA_VISIBLE_DEVICES": "9"}, ["finds no GPU", "CUDA_VISIBLE_DEVICES is '9': unset it"]),
    ],
)
def test_a_driver_that_cannot_serve_is_told_with_what_mends_it(
    found: Any, variables: dict[str, str], words: list[str]
) -> None:
    told = driver_problem(found, variables)
    assert all(word in told for word in words), told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("wheels", "words"),
    [
        ({}, ""),
        ({"cupy-cuda12x": "14.2.0"}, ""),
        ({"cupy-cuda13x": "14.2.0", "nvidia-cuda-nvrtc": "13.0.1"}, ""),
        ({"cupy-cuda12x": "14.2.0", "nvidia-cuda-nvrtc-cu12": "12.9", "nvidia-cuda-nvrtc": "13.0"}, ""),
        ({"cupy-cuda13x": "14.2.0", "nvidia-cuda-nvrtc-cu12": "12.9"}, "CuPy is for CUDA 13, NVRTC for CUDA 12"),
        ({"cupy-cuda12x": "14.2.0", "cupy-cuda13x": "14.2.0"}, "pip uninstall -y cupy-cuda12x cupy-cuda13x"),
    ],
)
def test_wheels_of_two_versions_of_cuda_are_told(wheels: dict[str, str], words: str) -> None:
    told = wheel_problem(wheels)
    assert (told is None) == (not words)
    assert words in (told or "")


def test_a_library_that_cannot_be_loaded_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cupy.py").write_text("raise ImportError('libcudart.so.12: cannot open\\nshared object file')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    told = gpu_problem()
    assert told is not None
    assert "CuPy cannot be loaded (libcudart.so.12: cannot open); install it anew" in told
    assert "\n" not in told


def test_a_busy_gpu_is_told_with_the_rule_that_has_chosen_it(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    cupy: ModuleType = sys.modules["cupy"]

    def refuse(non_blocking: bool) -> None:
        raise FakedCudaError(46, "cudaErrorDevicesUnavailable: all CUDA-capable devices are busy or unavailable")

    monkeypatch.setattr(cupy.cuda, "Stream", refuse)
    with pytest.raises(ConfigurationError, match=r"GPU 0 cannot be used \(this rank sees no other\): .* DEFAULT"):
        hidden_backend()


def test_a_rank_takes_its_part_of_a_card_before_cuda_is_asked_for_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b")
    monkeypatch.setenv("DEVICE_ID", "1")
    seen: list[str] = []
    cupy: ModuleType = sys.modules["cupy"]
    monkeypatch.setattr(cupy.cuda, "is_available", lambda: not seen.append(os.environ["CUDA_VISIBLE_DEVICES"]))
    assert gpu_problem() is None
    assert seen == ["MIG-b"]


def test_each_known_cause_says_what_to_do() -> None:
    for status in diagnosis._CAUSES:
        told = explained(FakedCudaError(status, "words of CUDA"))
        assert told.startswith("words of CUDA: ")
        assert len(told) < 250


def test_out_of_memory_names_the_tensor_and_the_ten_largest_holders(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    backend = hidden_backend()
    DEVICE.reset()
    kept = [backend.empty((1 + number) << 20, f"weight {number}") for number in range(12)]
    gone = backend.empty(1 << 30, "what has gone")
    del gone
    monkeypatch.setattr(DEVICE, "room", 5_000_000)
    for call in (
        lambda: backend.empty(3 << 30, "layers.0.weight"),
        lambda: backend.from_host(np.zeros(1 << 20), "layers.0.weight"),
    ):
        with pytest.raises(DeviceMemoryError) as caught:
            call()
        told = str(caught.value)
        assert told.startswith("out of GPU memory: layers.0.weight wants ")
        assert "5.0 MB of 5.0 MB are free" in told
        named = [f"weight {number} {(1 + number) * 1.048576:.1f} MB" for number in range(11, 1, -1)]
        assert ", ".join(named) in told
        assert not any(name in told for name in ("weight 1 ", "weight 0 ", "what has gone"))
    assert len(kept) == 12


OLD = "update the driver to {} or later, or install CuPy for the older CUDA"


@pytest.mark.parametrize(
    ("found", "variables", "words"),
    [
        (runtime(0), {}, "no driver of NVIDIA is loaded on this machine; install it (nvidia-smi then lists the GPUs)"),
        (runtime(11080), {}, f"the driver is for CUDA 11.8, CuPy for CUDA 12.9; {OLD.format('525')}"),
        (runtime(12080, 13000), {}, f"the driver is for CUDA 12.8, CuPy for CUDA 13.0; {OLD.format('580')}"),
        (runtime(12080, 99000), {}, f"the driver is for CUDA 12.8, CuPy for CUDA 99.0; {OLD.format('of this year')}"),
        (runtime(11990), {}, f"the driver is for CUDA 11.99, CuPy for CUDA 12.9; {OLD.format('525')}"),
        (runtime(12080, 12990), {}, "CuPy finds no GPU on this machine"),
        (runtime(12000), {}, "CuPy finds no GPU on this machine"),
        (
            runtime(13000),
            {"CUDA_VISIBLE_DEVICES": ""},
            "CuPy finds no GPU on this machine; CUDA_VISIBLE_DEVICES is '': unset it, or name GPUs of nvidia-smi -L",
        ),
        (runtime(12080, count=raising(0, "")), {}, "FakedCudaError"),
        (runtime(12080, count=raising(0, " first\nsecond")), {}, "first"),
    ],
)
def test_why_no_device_is_found_is_said_in_full(found: Any, variables: dict[str, str], words: str) -> None:
    assert driver_problem(found, variables) == words


def test_two_wheels_of_cupy_are_named_with_what_removes_them() -> None:
    assert wheel_problem({"cupy-cuda13x": "14", "nvidia-cuda-nvrtc": "13", "cupy-cuda12x": "14"}) == (
        "cupy-cuda12x and cupy-cuda13x are both installed, and each writes over the other; pip uninstall -y "
        "cupy-cuda12x cupy-cuda13x, then pip install 'mpiparallel[cuda12x]' or [cuda13x]"
    )
    assert wheel_problem({"nvidia-cuda-nvrtc": "13"}) is None


def test_wheels_of_cupy_and_nvidia_are_known_by_their_names_in_small_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("CuPy-CUDA12x", "nvidia-nccl-cu12", "numpy", None, "not-cupy")
    wheels = [SimpleNamespace(metadata={"Name": name}, version=f"{number}.0") for number, name in enumerate(names)]
    monkeypatch.setattr(diagnosis.importlib.metadata, "distributions", lambda: wheels)
    assert installed_wheels.__wrapped__() == {"cupy-cuda12x": "0.0", "nvidia-nccl-cu12": "1.0"}


@pytest.mark.parametrize(("capability", "lacks"), [("75", "7.5"), ("79", "7.9"), ("80", None), ("100", None)])
def test_cards_before_ampere_lack_tensor_cores_for_16_bits(capability: str, lacks: str | None) -> None:
    told = too_old_for_16_bits(capability)
    assert told == (
        lacks
        and f"has compute capability {lacks}, and kernels of tensor cores (float16, bfloat16, TF32) want 8.0 (Ampere) "
        "or later; train in float32: amp_level='O0', no allow_tf32 in gpu_config"
    )


def test_without_cupy_what_to_install_and_what_does_without_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpu_problem() == (
        "device_target='GPU', but CuPy is not installed; pip install 'mpiparallel[cuda12x]' (or cuda13x); or set "
        "device_target='CPU'"
    )


@pytest.mark.parametrize(
    ("is_there", "wheels", "words"),
    [
        (True, {}, None),
        (False, {}, "no driver of NVIDIA is loaded on this machine; install it (nvidia-smi then lists the GPUs)"),
        *(
            (
                is_there,
                {"cupy-cuda12x": "14", "nvidia-cuda-nvrtc": "13.0"},
                "CuPy is for CUDA 12, NVRTC for CUDA 13; pip install 'mpiparallel[cuda12x]'",
            )
            for is_there in (True, False)
        ),
    ],
)
def test_wheels_that_do_not_suit_are_told_before_the_driver_is_asked(
    is_there: bool, wheels: dict[str, str], words: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda = SimpleNamespace(is_available=lambda: is_there, runtime=runtime(0))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(diagnosis, "installed_wheels", lambda: wheels)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpu_problem() == (words and f"device_target='GPU', but {words}; or set device_target='CPU'")
