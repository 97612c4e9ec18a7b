"""What each rank of the benchmark runs: ``python rank.py '{"state": ..., "source": ..., "load": ..., ...}'``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).parents[1]))

from checkpointing import asynchronous, floors, ours
from checkpointing.measurement import Timings, Turns, agreed
from checkpointing.methods import IN_PEER, OURS, RAW, RAW_NEW, Method, Task, Unsuited, task_of
from checkpointing.peer import InPeer, Peer
from mpi4py import MPI

T = TypeVar("T")

_SAVERS: Mapping[str, Callable[[Task], Method]] = {RAW: floors.RawWrite, OURS: ours.Save}
_LOADERS: Mapping[str, Callable[[Task], Method]] = {
    RAW: floors.raw_read,
    RAW_NEW: floors.raw_read_new,
    OURS: ours.Load,
}


def main() -> None:
    """Measure what the job asks for; rank 0 writes what it found to the file that the job names."""
    job = json.loads(sys.argv[1])
    comm = MPI.COMM_WORLD
    task = task_of(job, comm.Get_rank(), comm.Get_size())
    load = os.getloadavg()[0]
    if job["kind"] == "asynchronous":
        found: dict[str, Any] = asynchronous.measure(task, comm, job["rounds"])
    else:
        timings = _measured(task, comm, job)
        found = {"seconds": timings.seconds, "methods_left_out": timings.left_out}
    found["bytes"] = _bytes(task, comm, job["kind"])
    found["load_average"] = [load, os.getloadavg()[0]]
    found["library"] = " ".join(MPI.Get_library_version().replace("\0", "").split(",")[0].split()[:3])
    if comm.Get_rank() == 0:
        Path(job["file"]).write_text(json.dumps(found), encoding="utf-8")
    comm.Barrier()


def _measured(task: Task, comm: MPI.Intracomm, job: Mapping[str, Any]) -> Timings:
    loads = job["kind"] == "load"
    known = _LOADERS if loads else _SAVERS
    timings, methods = Timings(), dict[str, Method]()
    in_peer = [name for name in job["methods"] if name in IN_PEER]
    peer, problem = _attempted(comm, lambda: Peer(job["peer_python"], task, in_peer, loads)) if in_peer else (None, "")
    if problem:
        timings.left_out = dict.fromkeys(in_peer, problem)
    for name in job["methods"]:
        if name in in_peer:
            if peer is not None:
                methods[name] = InPeer(peer, name)
            continue
        method, problem = _attempted(comm, partial(known[name], task))
        if method is not None:
            methods[name] = method
        else:
            timings.left_out[name] = problem
    folders = {name: task.folder_of(name) for name in methods}
    timings.seconds = Turns(comm, folders, loads).measure(methods, job["rounds"], job["patience"])
    for method in methods.values():
        method.close()
    if peer is not None:
        peer.close()
    return timings


def _attempted(comm: MPI.Intracomm, make: Callable[[], T]) -> tuple[T | None, str]:
    """Return what was made, or, on all ranks, why one of them could not make it."""
    made, problem = None, ""
    try:
        made = make()
    except Unsuited as error:
        problem = str(error)
    problem = agreed(comm, problem)
    return (None, problem) if problem else (made, "")


def _bytes(task: Task, comm: MPI.Intracomm, kind: str) -> int:
    """Return the bytes that all ranks write, or hold when they have loaded."""
    layouts = task.wanted if kind == "load" else task.saved
    held = {name: layout.box(task.rank).size * 4 for name, layout in layouts.items()}
    if kind != "load" and task.source == "whole":
        return sum(held.values())
    total: int = comm.allreduce(sum(held.values()))
    return total


if __name__ == "__main__":
    main()
