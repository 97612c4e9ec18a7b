"""Ranks that start MPI, save, move arrays and end, one of which is struck: ``notes fault moment victim seconds disk``.

Each leaves ``script<rank>`` when its script has come to its end. A ``disk`` is filled up before the fault strikes.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import numpy as np

from mpiparallel.communication import init
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.world import current
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard import memory
from mpiparallel.reshard.live import reshard
from tests.reliability import states
from tests.reliability.ranks.leaving_ranks import KEPT, LONGEST_LIFE, MPIRUNS, StoppedAtLast, leave_thread, starter_of
from tests.reliability.ranks.telling_ranks import fill
from tests.reliability.subject import save

EXIT, CODE, ABORT = 13, 3, 9
SAVES = 2
# What the others give a fault that strikes in MPI_Finalize: there the victim waits for them meanwhile.
HEAD_START = 1.5
HELPERS: list[subprocess.Popen[bytes]] = []


def fail() -> NoReturn:
    raise RuntimeError("the fault of this test")


def loop() -> NoReturn:
    while True:
        time.sleep(0.01)


# What the victim does to itself.
DEEDS: Mapping[str, Callable[[], object]] = {
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stopped": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "crash": lambda: ctypes.string_at(0),
    "exception": fail,
    "exit": lambda: os._exit(EXIT),
    "exit 0": lambda: os._exit(0),
    "sys.exit": lambda: sys.exit(CODE),
    "abort": lambda: sys.modules["mpi4py.MPI"].COMM_WORLD.Abort(ABORT),
    "loop": loop,
    "thread": leave_thread,
    "exit handler": lambda: atexit.register(time.sleep, LONGEST_LIFE),
    "stopped at last": lambda: KEPT.append(StoppedAtLast()),
    "descriptors": lambda: os.closerange(3, os.sysconf("SC_OPEN_MAX")),
    "mpirun stopped": lambda: os.kill(starter_of(MPIRUNS), signal.SIGSTOP),
    "mpirun killed": lambda: os.kill(starter_of(MPIRUNS), signal.SIGKILL),
    "nothing": lambda: None,
}
# What a process beside it can do to it, or to mpirun, while it is within MPI.
SIGNALS = {
    "killed": signal.SIGKILL,
    "stopped": signal.SIGSTOP,
    "crash": signal.SIGSEGV,
    "mpirun stopped": signal.SIGSTOP,
    "mpirun killed": signal.SIGKILL,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What strikes the rank that this process is, if it is the victim, and when."""

    kind: str
    moment: str
    is_here: bool
    seconds: float
    disk: Path | None

    def at(self, moment: str) -> None:
        """Strike now, if this is the moment."""
        if self.is_here and moment == self.moment:
            self._deed()

    @contextmanager
    def amid(self, moment: str, module: Any, name: str) -> Iterator[None]:
        """Strike in the first call of a function of a module, if this is the moment."""
        original, has_struck = getattr(module, name), False

        def call(*args: Any) -> Any:
            nonlocal has_struck
            if not has_struck:
                has_struck = True
                self._deed()
            return original(*args)

        is_now = self.is_here and moment == self.moment
        with mock.patch.object(module, name, call if is_now else original):
            yield

    def soon(self, moment: str) -> None:
        """Let a process beside this one strike after some time, if this is the moment."""
        if self.is_here and moment == self.moment:
            self._fill()
            struck = starter_of(MPIRUNS) if self.kind.startswith("mpirun") else os.getpid()
            words = f"sleep {self.seconds}; kill -{int(SIGNALS[self.kind])} {struck}"
            HELPERS.append(subprocess.Popen(["sh", "-c", words]))

    def _deed(self) -> None:
        self._fill()
        DEEDS[self.kind]()

    def _fill(self) -> None:
        if self.disk:
            fill(self.disk)


def move(world: Communicator) -> None:
    rows = Layout((world.size, 6), DeviceMatrix((world.size,)), ((0,), ()))
    columns = Layout((world.size, 6), DeviceMatrix((world.size,)), ((), (0,)))
    reshard(np.zeros((1, 6)), rows, columns, world, executor="packed")


def main() -> None:
    notes, kind, moment, victim, seconds = Path(sys.argv[1]), *sys.argv[2:4], int(sys.argv[4]), float(sys.argv[5])
    is_here = int(os.environ["RANK_ID"]) == victim
    fault = Fault(kind, moment, is_here, seconds, Path(sys.argv[6]) if len(sys.argv) > 6 else None)
    fault.at("before MPI")
    fault.soon("MPI_Init")
    init()
    for helper in HELPERS:
        # If this process is still to be struck, it is so here.
        helper.wait()
    world = current()
    world.barrier()
    layout = Layout((world.size * 50, 1000), DeviceMatrix((world.size,)), ((0,), ()))
    for step in range(1, SAVES + 1):
        with fault.amid(f"save {step}", os, "fsync"):
            save(world, notes / "checkpoints", {"w": states.Tensor(layout, "f4")}, step)
    with fault.amid("reshard", memory, "allocate"):
        move(world)
    world.barrier()
    if moment == "MPI_Finalize":
        if is_here:
            atexit.register(fault.soon, moment)
        else:
            atexit.register(time.sleep, HEAD_START)
    if moment == "exit":
        atexit.register(fault.at, moment)
    fault.at("last line")
    (notes / f"script{world.rank}").touch()


if __name__ == "__main__":
    main()
