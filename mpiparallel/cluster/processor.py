"""The processor: which OpenBLAS kernels suit it, and how many threads each rank may have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

# OpenBLAS's SkylakeX kernels are compiled for these flags; without one of them they die of an illegal instruction.
_SKYLAKEX_FLAGS = frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"})


def openblas_core_type(cpuinfo: str) -> str | None:
    """Return the ``OPENBLAS_CORETYPE`` for the processor that ``cpuinfo`` describes, or None to leave it unset.

    ``cpuinfo`` is the text of Linux's ``/proc/cpuinfo``. OpenBLAS takes AMD processors with AVX-512 (Zen 4 and later)
    for Haswell, which halves the speed of a matrix product. The SkylakeX kernels run on them. Every processor listed
    must have all flags.

    >>> flags = "avx2 avx512f avx512dq avx512bw avx512vl avx512cd"
    >>> openblas_core_type(f"vendor_id : AuthenticAMD\\nflags : {flags}")
    'SkylakeX'
    >>> openblas_core_type("vendor_id : AuthenticAMD\\nflags : avx2") is None
    True
    """
    fields = [line.partition(":")[::2] for line in cpuinfo.splitlines()]
    vendors = {value.strip() for name, value in fields if name.strip() == "vendor_id"}
    flags = [frozenset(value.split()) for name, value in fields if name.strip() == "flags"]
    if vendors == {"AuthenticAMD"} and flags and all(found >= _SKYLAKEX_FLAGS for found in flags):
        return "SkylakeX"
    return None


def threads_per_rank(cores: int, local_ranks: int) -> int:
    """Return how many threads each of ``local_ranks`` ranks on one host with ``cores`` cores may start: at least one.

    >>> threads_per_rank(8, 2), threads_per_rank(2, 8)
    (4, 1)
    """
    return max(1, cores // local_ranks)


def read_core_type(variables: Mapping[str, str]) -> str | None:
    """Return `openblas_core_type` of this machine, or None if ``variables`` set one already or it is no x86 Linux."""
    cpuinfo = Path("/proc/cpuinfo")
    if "OPENBLAS_CORETYPE" in variables or not cpuinfo.is_file():
        return None
    return openblas_core_type(cpuinfo.read_text())
