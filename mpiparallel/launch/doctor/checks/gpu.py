"""GPUs: the driver, CuPy, NCCL, and whether MPI takes arrays in their memory. No GPU is no fault."""

from __future__ import annotations

from collections.abc import Iterator

from mpiparallel.launch.doctor.finding import Finding
from mpiparallel.launch.doctor.machine import ExaminedMachine

_DRIVER_SECONDS = 8.0
_SECONDS = 25.0


def find_gpu(machine: ExaminedMachine) -> Iterator[Finding]:
    """Yield what there is of GPUs, and what would keep ranks from using them."""
    driver = machine.ask("nvidia-smi", "-L", seconds=_DRIVER_SECONDS)
    listed = [line for line in driver.output.splitlines() if line.startswith("GPU ")]
    if not listed:
        if driver.code is None and "started" in driver.failure:
            yield Finding("GPU", "note", "none that nvidia-smi knows of; ranks compute with NumPy")
        else:
            said = driver.complaint or driver.last_words or "says nothing"
            yield Finding(
                "GPU", "warning", f"nvidia-smi lists none, it {said}", "nvidia-smi; then look after the driver"
            )
        return
    yield Finding("GPU", "ok", f"{len(listed)}, {listed[0].partition(' (')[0].partition(': ')[2]}")
    yield from _cupy(machine, len(listed))
    yield _gpu_memory(machine)


def _cupy(machine: ExaminedMachine, listed: int) -> Iterator[Finding]:
    answer = machine.probe("gpu", seconds=_SECONDS)
    found = answer.facts
    if "cupy" not in found and "No module named" in answer.last_words:
        yield Finding("CuPy", "note", "not installed; ranks compute with NumPy", "pip install 'mpiparallel[cuda12x]'")
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
        nccl = found.get("nccl", 0)
        yield Finding("NCCL", "ok" if nccl else "note", f"version {nccl}" if nccl else "CuPy has none")


def _gpu_memory(machine: ExaminedMachine) -> Finding:
    found = machine.probe("mpi_library", "gpu").facts
    takes = found.get("takes_gpu_memory")
    if takes:
        return Finding("CUDA-aware", "ok", f"{machine.mpi.library} takes arrays in GPU memory")
    told = "does not take" if takes is False else "does not say whether it takes"
    what = f"{machine.mpi.library or 'MPI'} {told} arrays in GPU memory; give it a CuPy array, and ranks crash"
    return Finding("CUDA-aware", "note", what, "let mpiparallel move arrays, or install an MPI built with CUDA")


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
