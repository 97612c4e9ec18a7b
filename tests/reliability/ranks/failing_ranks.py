"""Ranks that call one collective after the other, until one of them fails: ``notes operation kind moment victim``.

In the third round the fault strikes before, in or after the operation. For the figures the victim leaves the time
in ``notes / "struck"``. Where nothing ends the job, it ends itself after some minutes, with code 99.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from mpiparallel.cluster.fault_plan import FaultPlan
from mpiparallel.communication import init
from mpiparallel.communication.fault_injection import FaultSchedule
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.world import current
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.reliability import states
from tests.reliability.subject import save

LONGEST_LIFE = 3600
ROUNDS = 120
EXIT_OF_SURVIVORS = 99
ROUND = 3
# Long enough for the victim to be in the collective, whatever the load.
HEAD_START = 0.3
CODE = 3


def reduce_all(world: Communicator, folder: Path, step: int) -> None:
    world.all_reduce(np.ones(100_000, np.float32))


def gather_all(world: Communicator, folder: Path, step: int) -> None:
    world.all_gather(np.ones(1000, np.float32), np.empty(1000 * world.size, np.float32))


def exchange_unevenly(world: Communicator, folder: Path, step: int) -> None:
    counts = [1000 * (member + world.rank + 1) for member in range(world.size)]
    world.all_to_all_v(np.zeros(sum(counts), np.uint8), counts, np.zeros(sum(counts), np.uint8), counts)


def meet(world: Communicator, folder: Path, step: int) -> None:
    world.barrier()


def save_checkpoint(world: Communicator, folder: Path, step: int) -> None:
    layout = Layout((world.size * 50, 1000), DeviceMatrix((world.size,)), ((0,), ()))
    save(world, folder, {"w": states.Tensor(layout, "f4")}, step)


OPERATIONS: Mapping[str, Callable[[Communicator, Path, int], None]] = {
    "AllReduce": reduce_all,
    "AllGather": gather_all,
    "AllToAllV": exchange_unevenly,
    "Barrier": meet,
    "save": save_checkpoint,
}

# How a rank ends that is no fault of a schedule.
BY_ITSELF: Mapping[str, Callable[[], None]] = {"code": lambda: sys.exit(CODE), "vanish": lambda: os._exit(0)}


def main() -> None:
    signal.signal(signal.SIGALRM, lambda number, frame: sys.exit(EXIT_OF_SURVIVORS))
    signal.alarm(LONGEST_LIFE)
    notes, operation, kind, moment, victim = Path(sys.argv[1]), *sys.argv[2:5], int(sys.argv[5])
    init()
    world = current()
    plan = FaultPlan.parse(f"{'kill' if kind in BY_ITSELF else kind}@{victim}:1:{moment}")
    faults = FaultSchedule(plan.faults(world.size), world.rank)
    folder = notes / "checkpoints"
    for step in range(1, ROUNDS):
        for name, call in OPERATIONS.items():
            now = step == ROUND and name == operation
            if now and world.rank == victim:
                (notes / "struck").write_text(f"{time.time()}")
                if kind in BY_ITSELF:
                    BY_ITSELF[kind]()
                faults.inject(1, name, world)  # the line of the fault
            elif now and moment == "in":
                time.sleep(HEAD_START)
            call(world, folder, step)
            if now and world.rank == victim:
                faults.left(1)  # the line of the fault after the operation
    time.sleep(LONGEST_LIFE)


if __name__ == "__main__":
    main()
