"""A program that a shell starts once for each rank; pytest runs it as well. ``FAULT`` says what rank 1 does wrong."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import numpy as np

from mpiparallel.communication import get_group_size, get_rank, init, world

init()


def test_one_world() -> None:
    """Add up over all ranks, and write down who this one is."""
    found = np.array([get_rank() + 1.0])
    world.current().all_reduce(found)
    print(f"rank {get_rank()} of {get_group_size()} on {socket.gethostname()}: {found[0]:g}", flush=True)
    Path("found").write_text(
        f"{get_rank()} {get_group_size()} {found[0]:g} {socket.gethostname()} {os.environ.get('DEVICE_ID')}\n"
    )
    fault = os.environ.get("FAULT", "") if get_rank() == 1 else ""
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "raise":
        raise ValueError("wrong on purpose")
    world.current().barrier()


if __name__ == "__main__":
    test_one_world()
    sys.exit(int(os.environ.get("CODE", "0")))
