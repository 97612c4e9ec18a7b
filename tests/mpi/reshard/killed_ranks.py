"""Moves a state; rank 1 is killed just before the last of some calls: ``executor mode call number call number ...``."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from typing import Any

from mpiparallel.communication import init, release
from mpiparallel.communication.world import current
from mpiparallel.reshard import reshard
from tests.conformance.meddling_communicator import Meddling
from tests.conformance.resharding.reshard_states import state


class KillPoint:
    """Kills this process before the n-th call of a kind after the n-th of another, and so on."""

    def __init__(self, calls: list[str], numbers: list[int]) -> None:
        self.seen: Counter[str] = Counter()
        self._steps = list(zip(calls, numbers, strict=True))

    def before(self, call: str) -> None:
        self.seen[call] += 1
        if self._steps and (call, self.seen[call]) == self._steps[0]:
            self._steps.pop(0)
            self.seen.clear()
            if not self._steps:
                os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    executor, mode, *steps = sys.argv[1:]
    init()
    world = current()
    kill_point = KillPoint(steps[::2], [int(number) for number in steps[1::2]])
    case = state(executor=executor, mode=mode, wave_bytes=1, digest=True)
    communicator: Any = Meddling(world, kill_point.before) if world.rank == 1 else world
    reshard(case.given(world.rank), case.source, case.target, communicator, **case.options)
    sys.stdout.write(f"rank {world.rank} survived {dict(kill_point.seen)}\n")
    release()


if __name__ == "__main__":
    main()
