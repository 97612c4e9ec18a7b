from __future__ import annotations

import json
from pathlib import Path

import pytest

from mpiparallel.launch.doctor.checks.gpu import find_gpu
from mpiparallel.launch.doctor.checks.slurm import find_slurm
from tests.unit.launch.doctor.faked_machine import MPICH, OPENMPI, FakedMachine, only

LISTS = """case "$1" in
--version) echo 'slurm 22.05.8';;
*) printf 'MPI plugin types are...\\n\\t%s\\n' OFFERED >&2;;
esac"""
JOB = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NUM_NODES": "3",
    "SLURM_TASKS_PER_NODE": "2(x3)",
    "SLURM_JOB_NODELIST": "n[1-3]",
}
GPUS = "echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'; echo 'GPU 1: NVIDIA H200 (UUID: GPU-2)'"


@pytest.mark.parametrize(
    ("launcher", "offered", "state", "mend"),
    [
        (OPENMPI, "none pmi2 pmix pmix_v4", "ok", ""),
        (OPENMPI, "none pmix_v4", "ok", ""),
        (OPENMPI, "none pmi2 cray_shasta", "warning", "apt-get install libpmix-dev"),
        (MPICH, "none pmi2 pmix", "ok", ""),
        (MPICH, "none pmix", "warning", "install SLURM's pmi2 plugin"),
    ],
)
def test_srun_must_offer_what_the_library_needs(
    faked: FakedMachine, launcher: str, offered: str, state: str, mend: str
) -> None:
    machine = faked(programs={"srun": LISTS.replace("OFFERED", offered)}, probes={"launcher": launcher})
    finding = only(find_slurm(machine), "srun")
    assert (finding.state, finding.mend.startswith(mend)) == (state, True)


def test_nothing_is_said_of_srun_for_a_library_that_is_not_known(faked: FakedMachine) -> None:
    launcher = 'echo \'{"vendor": "another", "library": "MPI"}\''
    machine = faked(programs={"srun": LISTS.replace("OFFERED", "pmix pmi2")}, probes={"launcher": launcher})
    found = [(finding.subject, finding.what) for finding in find_slurm(machine)]
    assert found == [("SLURM", "slurm 22.05.8, outside any job")]


def test_allocation_is_told(faked: FakedMachine) -> None:
    machine = faked(programs={"srun": LISTS.replace("OFFERED", "pmix")}, probes={"launcher": OPENMPI}, variables=JOB)
    assert only(find_slurm(machine), "SLURM").what == "slurm 22.05.8, job 7: 3 nodes, 2(x3) tasks a node, on n[1-3]"


@pytest.mark.parametrize(
    ("programs", "variables", "state"),
    [
        ({}, {}, "note"),
        ({}, JOB, "error"),
        ({"srun": "echo 'srun: fatal: no configuration' >&2; exit 1"}, {}, "note"),
        ({"srun": "echo 'srun: fatal: no configuration' >&2; exit 1"}, JOB, "error"),
    ],
)
def test_slurm_that_is_not_there_is_an_error_only_in_a_job(
    faked: FakedMachine, programs: dict[str, str], variables: dict[str, str], state: str
) -> None:
    machine = faked(programs=programs, variables={**variables})
    machine.variables["PATH"] = machine.variables["PATH"].partition(":")[0]  # type: ignore[index]
    (finding,) = find_slurm(machine)
    assert finding.state == state


def test_no_gpu_is_a_note(faked: FakedMachine) -> None:
    machine = faked()
    machine.variables["PATH"] = machine.variables["PATH"].partition(":")[0]  # type: ignore[index]
    assert [(finding.subject, finding.state) for finding in find_gpu(machine)] == [("GPU", "note")]


def test_driver_that_does_not_answer_is_a_warning(faked: FakedMachine) -> None:
    failing = "echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver'; exit 9"
    (finding,) = find_gpu(faked(programs={"nvidia-smi": failing}))
    assert (finding.state, "ended with exit code 9: NVIDIA-SMI has failed" in finding.what) == ("warning", True)


def cupy(**facts: object) -> str:
    told = {"cupy": "14.2.0", "driver": 12080, "runtime": 12090, "devices": 2, "nccl": 22707}
    return f"echo '{json.dumps(told | facts)}'"


@pytest.mark.parametrize(
    ("said", "subject", "state", "what"),
    [
        (cupy(), "CuPy", "ok", "14.2.0, CUDA 12.9, driver for CUDA 12.8, 2 of 2 GPUs add up"),
        (cupy(), "NCCL", "ok", "version 22707"),
        (cupy(nccl=0), "NCCL", "note", "CuPy has none"),
        (cupy(), "cuDNN", "note", "not installed; convolutions are kernels of this package"),
        (cupy(cudnn="9.28.0"), "cuDNN", "ok", "version 9.28.0; one rank takes its convolutions where they are faster"),
        (cupy(cudnn_problem="no driver"), "cuDNN", "error", "installed, and cannot be used: no driver"),
        (cupy(own=2), "transport", "ok", "2 ranks have a GPU each, so their arrays travel by NCCL"),
        (cupy(own=1), "transport", "note", "2 ranks share 1 GPU, so their arrays travel within its memory"),
        (cupy(nccl=0), "transport", "note", "arrays of GPUs travel through the host's memory: there is no NCCL"),
        (cupy(too_old="GPU 0 has 7.5; train in float32"), "16 bits", "note", "GPU 0 has 7.5"),
        ('echo \'{"problem": "it is busy; give it back"}\'', "CuPy", "error", "it is busy"),
        (cupy(devices=1), "devices", "note", "1 of 2 GPUs may be used; CUDA_VISIBLE_DEVICES is not set"),
        ('echo \'{"cupy": "14"}\'; kill -SEGV $$', "CuPy", "error", "a sum on each GPU was ended by SIGSEGV"),
        ("echo \"ModuleNotFoundError: No module named 'cupy'\" >&2; exit 1", "CuPy", "note", "not installed"),
    ],
)
def test_gpus_are_tried_in_a_child(faked: FakedMachine, said: str, subject: str, state: str, what: str) -> None:
    machine = faked(programs={"nvidia-smi": GPUS}, probes={"gpu": said, "mpi_library": "true", "launcher": OPENMPI})
    finding = only(find_gpu(machine), subject)
    assert (finding.state, finding.what.startswith(what)) == (state, True), finding


@pytest.mark.parametrize(
    ("said", "state", "what"),
    [
        (cupy(), "error", "not installed, and MPIPARALLEL_ATTENTION=cudnn asks for its attention"),
        (cupy(cudnn="9.28.0"), "ok", "; attention of 16 bits without dropout is cuDNN's"),
    ],
)
def test_whose_attention_is_asked_for_is_told(faked: FakedMachine, said: str, state: str, what: str) -> None:
    probes = {"gpu": said, "mpi_library": "true", "launcher": OPENMPI}
    machine = faked(programs={"nvidia-smi": GPUS}, probes=probes, variables={"MPIPARALLEL_ATTENTION": "cudnn"})
    finding = only(find_gpu(machine), "cuDNN")
    assert (finding.state, what in finding.what) == (state, True), finding


@pytest.mark.parametrize(
    ("said", "state", "what"),
    [
        ("echo '{\"takes_gpu_memory\": false}'", "note", "does not take arrays"),
        ("kill -SEGV $$", "note", "does not say whether"),
    ],
)
def test_mpi_is_asked_whether_it_takes_gpu_memory(faked: FakedMachine, said: str, state: str, what: str) -> None:
    machine = faked(programs={"nvidia-smi": GPUS}, probes={"gpu": cupy(), "mpi_library": said, "launcher": OPENMPI})
    finding = only(find_gpu(machine), "CUDA-aware")
    assert (finding.state, what in finding.what) == (state, True)


@pytest.mark.parametrize(
    ("said", "state", "what"),
    [
        ("echo '{\"whole\": true}'", "ok", "takes arrays in GPU memory; 2 ranks have tried it"),
        ("echo '{\"whole\": false}'", "warning", "but they arrive damaged"),
        ('echo \'{"sent": true, "whole": false}\'', "warning", "but sums of them are wrong"),
        ("echo '{\"sent\": true}'; kill -SEGV $$", "warning", "but 2 ranks that add them up was ended by SIGSEGV"),
        ("kill -SEGV $$", "warning", "but 2 ranks that try it was ended by SIGSEGV"),
    ],
)
def test_what_mpi_says_of_gpu_memory_is_tried_by_a_job(faked: FakedMachine, said: str, state: str, what: str) -> None:
    library = "echo '{\"takes_gpu_memory\": true}'"
    probes = {"gpu": cupy(), "mpi_library": library, "launcher": OPENMPI, "mpiparallel": said}
    finding = only(find_gpu(faked(programs={"nvidia-smi": GPUS}, probes=probes)), "CUDA-aware")
    assert (finding.state, what in finding.what) == (state, True), finding


def test_cupy_without_a_driver_is_told_in_one_line(faked: FakedMachine, tmp_path: Path) -> None:
    (tmp_path / "cupy").mkdir()
    said = 'echo \'{"problem": "no driver is loaded; install it"}\''
    machine = faked(probes={"gpu": said}, packages=(str(tmp_path),))
    machine.variables["PATH"] = machine.variables["PATH"].partition(":")[0]  # type: ignore[index]
    found = [(one.subject, one.state, one.what, one.mend) for one in find_gpu(machine)]
    assert found[1:] == [("CuPy", "note", "no driver is loaded", "install it")]
