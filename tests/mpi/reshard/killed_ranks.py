"""Moves a state; rank 1 is killed just before its n-th call of one kind: ``executor mode call n``."""

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
from tests.conformance.reshard_states import state


def main() -> None:
    executor, mode, fatal, number = sys.argv[1:]
    init()
    world = current()
    calls: Counter[str] = Counter()

    def before(call: str) -> None:
        calls[call] += 1
        if world.rank == 1 and call == fatal and calls[call] == int(number):
            os.kill(os.getpid(), signal.SIGKILL)

    case = state(executor=executor, mode=mode, wave_bytes=1, digest=True)
    communicator: Any = Meddling(world, before)
    reshard(case.given(world.rank), case.source, case.target, communicator, **case.options)
    sys.stdout.write(f"rank {world.rank} survived {dict(calls)}\n")
    release()


if __name__ == "__main__":
    main()
