"""Methods timed in turns on one rank of many."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from mpi4py import MPI
from resharding.methods import METHODS, Method
from resharding.work import Unsuited, Work

SLOW = 0.25
SLOW_EVERY = 4
LEAST_ROUNDS = 2


@dataclass
class Timings:
    """Of the methods that can move a case: seconds by round, peak memory, what they say; of the others, why not."""

    seconds: dict[str, dict[int, float]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    extra_bytes: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def measure(work: Work, names: Sequence[str], rounds: int, patience: float, resident: bool) -> Timings:
    """Time ``rounds`` runs of each method in turns; the first run of each, not timed, is checked.

    A slow method runs every fourth round, and after two rounds only while it has taken less than ``patience`` seconds.
    Unless ``resident``, each method is made ready for one round at a time. All ranks return the same times.
    """
    timings = Timings()
    ready: dict[str, Method] = {}
    for name in names:
        method = _first_run(name, work, timings)
        if method is not None and resident:
            ready[name] = method
        elif method is not None:
            _close(method)
        # Where memory is scarce no method may outlive its turn.
        del method
    order = list(timings.seconds)
    for index in range(rounds):
        turn = index % max(1, len(order))
        for name in order[turn:] + order[:turn]:
            if _is_due(list(timings.seconds[name].values()), index, patience):
                once = _timed(ready[name], work) if resident else _timed_anew(name, work)
                timings.seconds[name][index] = once
    for method in ready.values():
        _close(method)
    return timings


def _is_due(taken: Sequence[float], index: int, patience: float) -> bool:
    if not taken or taken[-1] < SLOW:
        return True
    return index % SLOW_EVERY == 0 and (len(taken) < LEAST_ROUNDS or sum(taken) < patience)


def _timed_anew(name: str, work: Work) -> float:
    method = factory(name)(work)
    _timed(method, work)
    seconds = _timed(method, work)
    _close(method)
    return seconds


def factory(name: str) -> Callable[[Work], Method]:
    """Import and return what makes a method ready; raise Unsuited where its library is not installed."""
    module, _, attribute = METHODS[name].partition(":")
    try:
        made: Callable[[Work], Method] = getattr(import_module(f"resharding.{module}"), attribute)
    except ImportError as error:
        raise Unsuited(f"not installed: {error.name or error}") from error
    return made


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
    timings.notes[name] = getattr(method, "note", "")
    return method


def _timed(method: Method, work: Work) -> float:
    """Return the seconds from when the first rank began to when the last one ended, by the clock of their host."""
    _optional(method, "reset")()
    work.comm.Barrier()
    start = time.perf_counter()
    method.run()
    end = time.perf_counter()
    # Where ranks share cores, others may be done before this one leaves the barrier.
    seconds: float = work.comm.allreduce(end, MPI.MAX) - work.comm.allreduce(start, MPI.MIN)
    return seconds


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
