"""What is told of GPUs, CuPy, NCCL, cuDNN and the ways of arrays, word by word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mpiparallel.launch.doctor.checks.gpu import _version, find_gpu
from tests.unit.launch.doctor.faked_machine import OPENMPI, FakedMachine, told

GPUS = "echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'; echo 'GPU 1: NVIDIA H200 (UUID: GPU-2)'"
ALL = ("GPU", "CuPy", "devices", "16 bits", "NCCL", "cuDNN", "transport", "CUDA-aware")
NCCL = "pip install 'mpiparallel[cuda12x]'"
CUDNN = "pip install 'mpiparallel[cudnn12x]'"


def cupy(**facts: object) -> str:
    known = {"cupy": "14.2.0", "driver": 12080, "runtime": 12090, "devices": 2, "nccl": 22707}
    return f"echo '{json.dumps(known | facts)}'"


def test_a_version_of_cuda_is_thousands_of_the_first_number_and_tens_of_the_second() -> None:
    told = {11080: "11.8", 12090: "12.9", 12990: "12.99", 13000: "13.0", 13001: "13.0", 13019: "13.1"}
    assert {number: _version(number) for number in told} == told


@pytest.mark.parametrize(
    ("said", "variables", "ranks", "line"),
    [
        (cupy(), {}, 2, ("GPU", "ok", "2, NVIDIA H200", "")),
        (cupy(), {}, 2, ("CuPy", "ok", "14.2.0, CUDA 12.9, driver for CUDA 12.8, 2 of 2 GPUs add up", "")),
        (cupy(runtime=13000, driver=11080), {}, 2, ("CuPy", "ok", "14.2.0, CUDA 13.0, driver for CUDA 11.8", "")),
        (
            cupy(devices=1),
            {"CUDA_VISIBLE_DEVICES": "1"},
            2,
            ("devices", "note", "1 of 2 GPUs may be used; CUDA_VISIBLE_DEVICES is 1", "unset CUDA_VISIBLE_DEVICES"),
        ),
        (
            cupy(too_old="GPU 0 has 7.5; train in float32; or not"),
            {},
            2,
            ("16 bits", "note", "GPU 0 has 7.5", "train in float32; or not"),
        ),
        (cupy(), {}, 2, ("NCCL", "ok", "version 22707", "")),
        (cupy(nccl=0), {}, 2, ("NCCL", "note", "CuPy has none", "")),
        (cupy(), {}, 2, ("cuDNN", "note", "not installed; convolutions are kernels of this package", CUDNN)),
        (
            cupy(),
            {"MPIPARALLEL_ATTENTION": "cudnn"},
            2,
            ("cuDNN", "error", "not installed, and MPIPARALLEL_ATTENTION=cudnn asks for its attention", CUDNN),
        ),
        (
            cupy(cudnn_problem="no driver"),
            {"MPIPARALLEL_ATTENTION": "own"},
            2,
            (
                "cuDNN",
                "error",
                "installed, and cannot be used: no driver",
                "MPIPARALLEL_CONVOLUTIONS=own, or pip uninstall nvidia-cudnn-frontend",
            ),
        ),
        (
            cupy(cudnn_problem="no driver"),
            {"MPIPARALLEL_ATTENTION": "cudnn"},
            2,
            (
                "cuDNN",
                "error",
                "installed, and cannot be used: no driver",
                "MPIPARALLEL_CONVOLUTIONS=own MPIPARALLEL_ATTENTION=own, or pip uninstall nvidia-cudnn-frontend",
            ),
        ),
        (cupy(), {}, 2, ("transport", "ok", "2 ranks have a GPU each, so their arrays travel by NCCL", "")),
        (cupy(), {}, 1, ("transport", "ok", "1 ranks have a GPU each, so their arrays travel by NCCL", "")),
        (
            cupy(),
            {},
            3,
            (
                "transport",
                "note",
                "3 ranks share 2 GPUs, so arrays travel from one GPU to another through the host's memory",
                "mpiparallel run -n 2",
            ),
        ),
        (
            cupy(own=1),
            {},
            2,
            (
                "transport",
                "note",
                "2 ranks share 1 GPU, so their arrays travel within its memory, by CUDA IPC",
                "mpiparallel run -n 1",
            ),
        ),
        (
            cupy(nccl=0),
            {},
            2,
            ("transport", "note", "arrays of GPUs travel through the host's memory: there is no NCCL", NCCL),
        ),
        ('echo \'{"problem": "it is busy; give it back; soon"}\'', {}, 2, ("CuPy", "error", "it is busy", "give it")),
        (
            "echo \"No module named 'cupy'\" >&2; exit 1",
            {},
            2,
            ("CuPy", "note", "not installed; ranks compute with NumPy", NCCL),
        ),
    ],
)
def test_what_there_is_of_gpus_is_told_with_what_to_install(
    faked: FakedMachine, said: str, variables: dict[str, str], ranks: int, line: tuple[str, str, str, str]
) -> None:
    probes = {"gpu": said, "mpi_library": "true", "launcher": OPENMPI}
    machine = faked(programs={"nvidia-smi": GPUS}, probes=probes, variables=variables, ranks=ranks)
    found = told(find_gpu(machine))
    assert [one[0] for one in found] == [name for name in ALL if name in {one[0] for one in found}]
    (own,) = (one for one in found if one[0] == line[0])
    assert own[:2] == line[:2]
    assert own[2].startswith(line[2])
    assert own[3].startswith(line[3])
    assert bool(own[3]) == bool(line[3])


def test_a_sum_that_fails_on_a_gpu_is_told_with_how_to_see_more(faked: FakedMachine) -> None:
    probes = {"gpu": 'echo \'{"cupy": "14"}\'; exit 3', "mpi_library": "true", "launcher": OPENMPI}
    machine = faked(programs={"nvidia-smi": GPUS}, probes=probes)
    assert told(find_gpu(machine))[1:2] == [
        (
            "CuPy",
            "error",
            'a sum on each GPU ended with exit code 3: {"cupy": "14"}',
            f"{machine.python} -m mpiparallel.launch.doctor.probes.gpu; then the cupy wheel for this driver's CUDA",
        )
    ]


@pytest.mark.parametrize(
    ("shell", "what"),
    [
        ("echo broken; exit 9", "nvidia-smi lists none, it ended with exit code 9: broken"),
        ("exit 9", "nvidia-smi lists none, it ended with exit code 9"),
        ("echo 'No devices were found'", "nvidia-smi lists none, it says No devices were found"),
        ("true", "nvidia-smi lists none, it says nothing"),
    ],
)
def test_a_driver_that_lists_no_gpu_is_told_with_its_words(faked: FakedMachine, shell: str, what: str) -> None:
    machine = faked(programs={"nvidia-smi": shell})
    assert told(find_gpu(machine)) == [("GPU", "warning", what, "nvidia-smi; then look after the driver")]


@pytest.mark.parametrize("installed", [False, True])
def test_without_a_driver_only_an_installed_cupy_is_asked_why(
    faked: FakedMachine, tmp_path: Path, installed: bool
) -> None:
    (tmp_path / ("cupy" if installed else "other")).mkdir()
    probes = {"gpu": 'echo \'{"problem": "no driver is loaded; install it"}\''}
    machine = faked(probes=probes, packages=(str(tmp_path / "none"), str(tmp_path)))
    machine.variables["PATH"] = machine.variables["PATH"].partition(":")[0]  # type: ignore[index]
    none = ("GPU", "note", "none that nvidia-smi knows of; ranks compute with NumPy", "")
    why = ("CuPy", "note", "no driver is loaded", "install it")
    assert told(find_gpu(machine)) == [none, why][: 1 + installed]


WAYS = "let mpiparallel move arrays, or install an MPI built with CUDA"
AGAIN = "mpiparallel run -n 2 -m mpiparallel.launch.doctor.probes.cuda_aware"
TAKES = "Open MPI v5.0.11 says it takes arrays in GPU memory, but "


@pytest.mark.parametrize(
    ("asked", "tried", "line"),
    [
        ('{"takes_gpu_memory": false}', "true", ("note", "Open MPI v5.0.11 does not take arrays in GPU memory", WAYS)),
        ("{}", "true", ("note", "Open MPI v5.0.11 does not say whether it takes arrays in GPU memory", WAYS)),
        (
            '{"takes_gpu_memory": true}',
            "echo '{\"whole\": true}'",
            ("ok", "Open MPI v5.0.11 takes arrays in GPU memory; 2 ranks have tried it", ""),
        ),
        ('{"takes_gpu_memory": true}', "echo '{\"whole\": false}'", ("warning", f"{TAKES}they arrive damaged", AGAIN)),
        (
            '{"takes_gpu_memory": true}',
            'echo \'{"sent": true, "whole": false}\'',
            ("warning", f"{TAKES}sums of them are wrong", AGAIN),
        ),
        ('{"takes_gpu_memory": true}', "exit 3", ("warning", f"{TAKES}2 ranks that try it ended with exit", AGAIN)),
        (
            '{"takes_gpu_memory": true}',
            "echo '{\"sent\": true}'; exit 3",
            ("warning", f"{TAKES}2 ranks that add them up ended with exit code 3", AGAIN),
        ),
    ],
)
def test_whether_mpi_takes_arrays_of_gpus_is_told_with_what_two_ranks_saw(
    faked: FakedMachine, asked: str, tried: str, line: tuple[str, str, str]
) -> None:
    probes = {"gpu": cupy(), "mpi_library": f"echo '{asked}'", "launcher": OPENMPI, "mpiparallel": tried}
    subject, state, what, mend = told(find_gpu(faked(programs={"nvidia-smi": GPUS}, probes=probes)))[-1]
    assert (subject, state, mend) == ("CUDA-aware", line[0], line[2])
    assert what.startswith(line[1])


def test_without_an_mpi_arrays_of_gpus_are_told_to_crash_it(faked: FakedMachine) -> None:
    probes = {"gpu": cupy(), "mpi_library": "true", "launcher": 'echo \'{"failure": "none"}\''}
    assert told(find_gpu(faked(programs={"nvidia-smi": GPUS}, probes=probes)))[-1] == (
        "CUDA-aware",
        "note",
        "MPI does not say whether it takes arrays in GPU memory; give it a CuPy array, and ranks crash",
        WAYS,
    )
