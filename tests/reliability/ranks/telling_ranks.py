"""Ranks of which one fails in a way that is hard to tell, while the others wait for it: ``notes kind disk``."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn
from unittest import mock

import numpy as np

from mpiparallel.communication import init
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.world import current
from mpiparallel.errors import ReshardError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard import memory
from mpiparallel.reshard.live import reshard

VICTIM = 1
CODE = 9
WORDS = "the true cause"
LINES = 2000
# Longer than the launcher waits for ranks after a failure.
SLOW_SECONDS = 5.0
# Longer than the others take to tell what they all raise.
LATE_SECONDS = 1.0


def close_descriptor() -> None:
    os.close(2)


def close_stream() -> None:
    sys.stderr.close()


def take_stream_away() -> None:
    sys.stderr = None


def fill_stream() -> None:
    sys.stderr = io.TextIOWrapper(io.FileIO("/dev/full", "w"))


def fill_descriptor() -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 2)


def break_pipe() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 2)


STDERRS: Mapping[str, Callable[[], None]] = {
    "descriptor closed": close_descriptor,
    "stream closed": close_stream,
    "no stream": take_stream_away,
    "stream full": fill_stream,
    "descriptor full": fill_descriptor,
    "pipe broken": break_pipe,
}


class SlowError(Exception):
    def __str__(self) -> str:
        time.sleep(SLOW_SECONDS)
        return WORDS


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise MemoryError(WORDS)


def raise_many_lines() -> NoReturn:
    raise ValueError(f"{WORDS}\nand a line\n  and one more")


def raise_much() -> NoReturn:
    raise ValueError(f"{WORDS} {'x' * 50_000_000}")


def raise_slowly() -> NoReturn:
    raise SlowError


def raise_unspeakably() -> NoReturn:
    raise UnspeakableError


def raise_control_characters() -> NoReturn:
    raise ValueError(f"{WORDS} \x1b[2J\x1b]0;title\x07 \x9b31m \u202e end")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def abort() -> None:
    # Started by init(), which this module itself must not do.
    sys.modules["mpi4py.MPI"].COMM_WORLD.Abort(CODE)


FAILURES: Mapping[str, Callable[[], None]] = {
    "many lines": raise_many_lines,
    "much": raise_much,
    "slow": raise_slowly,
    "unspeakable": raise_unspeakably,
    "control characters": raise_control_characters,
    "abort": abort,
    "killed": die,
}
ON_FULL_DISK = "full disk, "


def lack_memory(world: Communicator) -> None:
    """Move an array for which the victim has no memory; it is the last to tell what all raise together."""
    rows = Layout((world.size, 6), DeviceMatrix((world.size,)), ((0,), ()))
    columns = Layout((world.size, 6), DeviceMatrix((world.size,)), ((), (0,)))
    is_victim = world.rank == VICTIM
    lacking = mock.patch.object(memory, "allocate", side_effect=MemoryError("no memory here"))
    try:
        with lacking if is_victim else mock.patch.object(memory, "allocate", memory.allocate):
            reshard(np.zeros((1, 6)), rows, columns, world, executor="packed")
    except ReshardError:
        if is_victim:
            time.sleep(LATE_SECONDS)
        raise


def fill(disk: Path) -> None:
    filler = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
    size = 4096
    try:
        while os.write(filler, bytes(size)):
            pass
    except OSError:
        os.close(filler)


def main() -> None:
    kind, disk = sys.argv[2], Path(sys.argv[3])
    init()
    world = current()
    print(f"rank {world.rank} has begun")
    world.barrier()
    if kind.startswith("full disk"):
        if world.rank == 0:
            fill(disk)
        world.barrier()
        for line in range(LINES):
            print(f"line {line} of rank {world.rank}")
        world.barrier()
    if kind == "memory":
        lack_memory(world)
    if world.rank == VICTIM:
        if kind in STDERRS:
            STDERRS[kind]()
        failure = kind.removeprefix(ON_FULL_DISK)
        if failure in FAILURES:
            FAILURES[failure]()
        if kind in STDERRS or kind == "full disk, and an exception":
            raise ValueError(WORDS)
    world.barrier()


if __name__ == "__main__":
    main()
