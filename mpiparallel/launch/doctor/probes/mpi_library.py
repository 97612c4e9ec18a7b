"""Print, as JSON, which file the MPI library is; with an argument, whether it takes arrays in GPU memory."""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
from pathlib import Path


def main() -> None:
    """Load mpi4py without starting MPI, and look where its library lies in memory."""
    importlib.import_module("mpi4py").rc.initialize = False
    mpi = importlib.import_module("mpi4py.MPI")
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    file = next((line.split(maxsplit=5)[-1] for line in maps.splitlines() if "/libmpi" in line), "")
    print(json.dumps({"file": file}), flush=True)
    if len(sys.argv) > 1:
        mpi.Init()
        print(json.dumps({"takes_gpu_memory": _takes_gpu_memory(file)}), flush=True)
        mpi.Finalize()


def _takes_gpu_memory(file: str) -> bool | None:
    # An extension that both Open MPI and MPICH have; older ones lack it.
    query = getattr(ctypes.CDLL(file or None), "MPIX_Query_cuda_support", None)
    return None if query is None else bool(query())


if __name__ == "__main__":
    main()
