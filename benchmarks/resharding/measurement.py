"""Methods timed in turns on one rank of many."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mpi4py import MPI
from resharding.methods import Method, factory
from resharding.work import Unsuited, Work

SLOW = 0.25
SLOW_EVERY = 4


@dataclass
class Timings:
    """Of the methods that can move a case: seconds by round, and peak memory; of the others, why not."""

    seconds: dict[str, dict[int, float]] = field(default_factory=dict)
    extra_bytes: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def measure(work: Work, names: Sequence[str], rounds: int, resident: bool) -> Timings:
    """Time ``rounds`` runs of each method in turns, slow ones every fourth round; the first run, not timed, is checked.

    Unless ``resident``, each method is made ready for one round at a time. All ranks return the same times, those from
    barrier to barrier of rank 0.
    """
    timings = Timings()
    ready: dict[str, Method] = {}
    for name in names:
        method = _first_run(name, work, timings)
        if method is None:
            continue
        if resident:
            ready[name] = method
        else:
            _close(method)
    order = list(timings.seconds)
    slow: set[str] = set()
    for index in range(rounds):
        turn = index % max(1, len(order))
        for name in order[turn:] + order[:turn]:
            if name in slow and index % SLOW_EVERY:
                continue
            method = ready[name] if resident else factory(name)(work)
            if not resident:
                _timed(method, work)
            seconds = _timed(method, work)
            timings.seconds[name][index] = seconds
            if seconds > SLOW and resident:
                slow.add(name)
            if not resident:
                _close(method)
                del method
                gc.collect()
    for method in ready.values():
        _close(method)
    return timings


def _first_run(name: str, work: Work, timings: Timings) -> Method | None:
    reason, method, before = "", None, 0
    try:
        make = factory(name)
        before = _restart_peak()
        method = make(work)
    except Unsuited as error:
        reason = str(error)
    reasons = [said for said in work.comm.allgather(reason) if said]
    if reasons:
        timings.left_out[name] = reasons[0]
        return None
    if method is None:
        return None
    _timed(method, work)
    timings.extra_bytes[name] = work.comm.allreduce(_peak() - before, MPI.MAX)
    found = method.results()
    if found is not None:
        work.check(name, found)
    timings.seconds[name] = {}
    return method


def _timed(method: Method, work: Work) -> float:
    _optional(method, "reset")()
    work.comm.Barrier()
    start = time.perf_counter()
    method.run()
    work.comm.Barrier()
    taken: float = work.comm.bcast(time.perf_counter() - start)
    return taken


def _close(method: Method) -> None:
    _optional(method, "close")()


def _optional(method: Method, name: str) -> Callable[[], Any]:
    found: Callable[[], Any] = getattr(method, name, lambda: None)
    return found


def _restart_peak() -> int:
    """Let the kernel forget this process's largest resident size; return the present one in bytes."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS")


def _peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
