"""What each rank of the benchmark runs: ``python rank.py '{"cases": ..., "folder": ..., ...}'``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from mpi4py import MPI
from resharding.cases import CASES
from resharding.measurement import measure
from resharding.work import Work

ROUNDS_OF_HUGE = 3
_SHARE_OF_MEMORY = 0.75
_COPIES_OF_STATE = 1.5


def main() -> None:
    """Measure each case that the job names; rank 0 writes what it found to the file that it names."""
    job = json.loads(sys.argv[1])
    comm = MPI.COMM_WORLD
    found: dict[str, Any] = {
        "library": " ".join(
            MPI.Get_library_version().replace("\0", "").splitlines()[0].partition(", package")[0].split()
        ),
        "ranks": comm.Get_size(),
        "cores": len(os.sched_getaffinity(0)),
        "cases": {},
    }
    for name in job["cases"]:
        case = CASES[name]
        if comm.Get_rank() == 0:
            sys.stderr.write(f"{found['library']}, {comm.Get_size()} ranks, {name} ...\n")
        problem = comm.bcast(_problem(case.total_bytes(comm.Get_size(), job["shrink"])))
        if case.ranks and comm.Get_size() not in case.ranks:
            problem = f"measured on {', '.join(map(str, case.ranks))} ranks only"
        if problem:
            found["cases"][name] = {"left_out": problem}
            continue
        load = os.getloadavg()[0]
        work = Work(case.layouts(comm.Get_size(), job["shrink"]), comm, Path(job["folder"]))
        rounds = job["rounds"] if case.resident else min(job["rounds"], ROUNDS_OF_HUGE)
        timings = measure(work, job["methods"], rounds, job["patience"], case.resident)
        found["cases"][name] = {
            "seconds": timings.seconds,
            "extra_bytes": timings.extra_bytes,
            "notes": timings.notes,
            "methods_left_out": timings.left_out,
            "load": [load, os.getloadavg()[0]],
        }
        del work
        if comm.Get_rank() == 0:
            Path(job["file"]).write_text(json.dumps(found), encoding="utf-8")
        comm.Barrier()


def _problem(state_bytes: int) -> str:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    if _COPIES_OF_STATE * state_bytes > _SHARE_OF_MEMORY * free:
        return f"{state_bytes / 2**30:.1f} GiB before and after, and {free / 2**30:.1f} GiB of memory are free"
    return ""


if __name__ == "__main__":
    main()
