"""Methods timed in turns, on one rank of many."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from checkpointing.methods import Method, Span, WrongResultError, clear, forget
from mpi4py import MPI

LEAST_ROUNDS = 2
_NAP_SECONDS = 2e-4


@dataclass
class Timings:
    """Seconds of each method by round; of methods that cannot run here, why not."""

    seconds: dict[str, dict[int, float]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


class Turns:
    """Runs methods in turns on all ranks of ``comm``; ``folders`` is where each has its files."""

    def __init__(self, comm: MPI.Intracomm, folders: Mapping[str, Path], loads: bool) -> None:
        self._comm, self._folders, self._loads = comm, folders, loads

    def measure(self, methods: Mapping[str, Method], rounds: int, patience: float) -> dict[str, dict[int, float]]:
        """Return the seconds of each method, the same on all ranks; a first run of each is checked, not timed.

        After two rounds a method runs only while it has taken less than ``patience`` seconds.
        """
        seconds: dict[str, dict[int, float]] = {name: {} for name in methods}
        for name, method in methods.items():
            self._timed(name, method)
            wrong = [found for found in self._comm.allgather(method.difference()) if found]
            if wrong:
                raise WrongResultError(f"{name} has loaded {wrong[0]} wrongly")
        order = list(methods)
        for index in range(rounds):
            turn = index % max(1, len(order))
            for name in order[turn:] + order[:turn]:
                taken = seconds[name].values()
                if len(taken) < LEAST_ROUNDS or sum(taken) < patience:
                    seconds[name][index] = self._timed(name, methods[name])
        return seconds

    def _timed(self, name: str, method: Method) -> float:
        """Return the seconds from when the first rank began to when the last one ended."""
        method.reset()
        self._comm.Barrier()
        if self._comm.Get_rank() == 0:
            forget(self._folders[name]) if self._loads else clear(self._folders[name])
        self._comm.Barrier()
        start = time.perf_counter()
        told = method.run()
        span = told or Span(start, time.perf_counter())
        self._wait()
        seconds: float = self._comm.allreduce(span.end, MPI.MAX) - self._comm.allreduce(span.start, MPI.MIN)
        return seconds

    def _wait(self) -> None:
        """Wait for all ranks without taking their cores."""
        request = self._comm.Ibarrier()
        while not request.Test():
            time.sleep(_NAP_SECONDS)


def agreed(comm: MPI.Intracomm, problem: str) -> str:
    """Return what the first rank with a problem says, on all ranks."""
    said: Sequence[str] = comm.allgather(problem)
    return next((text for text in said if text), "")
