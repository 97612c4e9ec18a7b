"""GPUs: the driver, CuPy, NCCL, and whether MPI takes arrays in their memory. No GPU is no fault."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mpiparallel.launch.doctor.examined_machine import ExaminedMachine
from mpiparallel.launch.doctor.finding import Finding

_ATTENTION = "MPIPARALLEL_ATTENTION"
_DRIVER_SECONDS = 8.0
_SECONDS = 25.0
_JOB_SECONDS = 30


def find_gpu(machine: ExaminedMachine) -> Iterator[Finding]:
    """Yield what there is of GPUs, and what would keep ranks from using them."""
    driver = machine.ask("nvidia-smi", "-L", seconds=_DRIVER_SECONDS)
    listed = [line for line in driver.output.splitlines() if line.startswith("GPU ")]
    if not listed:
        if driver.code is None and "started" in driver.failure:
            yield Finding("GPU", "note", "none that nvidia-smi knows of; ranks compute with NumPy")
            yield from _without_driver(machine)
        else:
            what = f"nvidia-smi lists none, it {driver.complaint}"
            yield Finding("GPU", "warning", what, "nvidia-smi; then look after the driver")
        return
    yield Finding("GPU", "ok", f"{len(listed)}, {listed[0].partition(' (')[0].partition(': ')[2]}")
    yield from _cupy(machine, len(listed))
    yield _gpu_memory(machine)


def _cupy(machine: ExaminedMachine, listed: int) -> Iterator[Finding]:
    answer = machine.probe("gpu", seconds=_SECONDS)
    found = answer.facts
    if "cupy" not in found and "No module named" in answer.last_words:
        yield Finding("CuPy", "note", "not installed; ranks compute with NumPy", "pip install 'mpiparallel[cuda12x]'")
    elif "problem" in found:
        what, _, mend = found["problem"].partition("; ")
        yield Finding("CuPy", "error", what, mend)
    elif answer.failure:
        mend = f"{machine.python} -m mpiparallel.launch.doctor.probes.gpu; then the cupy wheel for this driver's CUDA"
        yield Finding("CuPy", "error", f"a sum on each GPU {answer.complaint}", mend)
    else:
        versions = f"{found['cupy']}, CUDA {_version(found['runtime'])}, driver for CUDA {_version(found['driver'])}"
        yield Finding("CuPy", "ok", f"{versions}, {found['devices']} of {listed} GPUs add up")
        if found["devices"] < listed:
            given = machine.variables.get("CUDA_VISIBLE_DEVICES", "not set")
            what = f"{found['devices']} of {listed} GPUs may be used; CUDA_VISIBLE_DEVICES is {given}"
            yield Finding("devices", "note", what, "unset CUDA_VISIBLE_DEVICES")
        if "too_old" in found:
            what, _, mend = found["too_old"].partition("; ")
            yield Finding("16 bits", "note", what, mend)
        nccl = found["nccl"]
        yield Finding("NCCL", "ok" if nccl else "note", f"version {nccl}" if nccl else "CuPy has none")
        yield _cudnn(found, machine.variables.get(_ATTENTION, ""))
        yield _ways(machine.ranks, found.get("own", found["devices"]), nccl)


def _cudnn(found: Mapping[str, Any], attention: str) -> Finding:
    """Return whose convolutions ranks take, and whose ``attention``, by what the user asks for."""
    if "cudnn_problem" in found:
        own = f" {_ATTENTION}=own" if attention == "cudnn" else ""
        mend = f"MPIPARALLEL_CONVOLUTIONS=own{own}, or pip uninstall nvidia-cudnn-frontend"
        return Finding("cuDNN", "error", f"installed, and cannot be used: {found['cudnn_problem']}", mend)
    if "cudnn" not in found:
        mend = "pip install 'mpiparallel[cudnn12x]'"
        if attention == "cudnn":
            return Finding("cuDNN", "error", f"not installed, and {_ATTENTION}=cudnn asks for its attention", mend)
        return Finding("cuDNN", "note", "not installed; convolutions are kernels of this package", mend)
    what = "one rank takes its convolutions where they are faster, several ranks take them all"
    if attention == "cudnn":
        what += "; attention of 16 bits without dropout is cuDNN's"
    return Finding("cuDNN", "ok", f"version {found['cudnn']}; {what}")


def _ways(ranks: int, cards: int, nccl: int) -> Finding:
    """Return how the arrays of ranks here would travel, by the rule of ``communication/transport/choice.py``."""
    if ranks <= cards and nccl:
        return Finding("transport", "ok", f"{ranks} ranks have a GPU each, so their arrays travel by NCCL")
    mend = f"mpiparallel run -n {cards}"
    if cards == 1:
        what = f"{ranks} ranks share 1 GPU, so their arrays travel within its memory, by CUDA IPC"
        return Finding("transport", "note", what, mend)
    if not nccl:
        mend = "pip install 'mpiparallel[cuda12x]'"
        return Finding("transport", "note", "arrays of GPUs travel through the host's memory: there is no NCCL", mend)
    what = f"{ranks} ranks share {cards} GPUs, so arrays travel from one GPU to another through the host's memory"
    return Finding("transport", "note", what, mend)


def _without_driver(machine: ExaminedMachine) -> Iterator[Finding]:
    """Yield why CuPy, which is installed, is of no use."""
    if not any(Path(folder, "cupy").is_dir() for folder in machine.packages):
        return
    problem = machine.probe("gpu", seconds=_SECONDS).facts.get("problem", "")
    if problem:
        what, _, mend = problem.partition("; ")
        yield Finding("CuPy", "note", what, mend)


def _gpu_memory(machine: ExaminedMachine) -> Finding:
    found = machine.probe("mpi_library", "gpu").facts
    takes = found.get("takes_gpu_memory")
    if takes:
        return _tried(machine)
    told = "does not take" if takes is False else "does not say whether it takes"
    what = f"{machine.mpi.library or 'MPI'} {told} arrays in GPU memory; give it a CuPy array, and ranks crash"
    return Finding("CUDA-aware", "note", what, "let mpiparallel move arrays, or install an MPI built with CUDA")


def _tried(machine: ExaminedMachine) -> Finding:
    """Return whether a job of two ranks has moved arrays between GPUs; what it saw is kept for other jobs."""
    again = "mpiparallel run -n 2 -m mpiparallel.launch.doctor.probes.cuda_aware"
    with tempfile.TemporaryDirectory(prefix="mpiparallel_doctor_", ignore_cleanup_errors=True) as logs:
        answer = machine.ask(
            *(machine.python, "-m", "mpiparallel", "run", "-n", "2", "--log-dir", logs, "--timeout", str(_JOB_SECONDS)),
            *("-m", "mpiparallel.launch.doctor.probes.cuda_aware"),
            seconds=_JOB_SECONDS + 10,
        )
    whole = answer.facts.get("whole")
    if whole:
        return Finding("CUDA-aware", "ok", f"{machine.mpi.library} takes arrays in GPU memory; 2 ranks have tried it")
    is_sent = answer.facts.get("sent")
    if whole is False:
        how = "sums of them are wrong" if is_sent else "they arrive damaged"
    else:
        how = f"2 ranks that {'add them up' if is_sent else 'try it'} {answer.complaint}"
    return Finding(
        "CUDA-aware", "warning", f"{machine.mpi.library} says it takes arrays in GPU memory, but {how}", again
    )


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
