"""Ranks that leave processes, and one, maybe, that does not leave: ``leaving.py FOLDER KIND``."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

LIFE_SECONDS = 600.0
VICTIM = 5


def main() -> None:
    from mpi4py import MPI

    folder, kind = Path(sys.argv[1]), sys.argv[2]
    world = MPI.COMM_WORLD
    subprocess.Popen(["sh", "-c", "while :; do sleep 1; done", f"child-own-{world.rank}"])
    daemon = f"(setsid sh -c 'while :; do sleep 1; done' child-daemon-{world.rank} </dev/null >/dev/null 2>&1 &)"
    subprocess.run(["sh", "-c", daemon], env={"PATH": os.environ["PATH"]}, check=True)
    world.Barrier()
    (folder / f"turning_{world.rank}").touch()
    if kind == "raise" and world.rank == VICTIM:
        raise ArithmeticError(f"asked of rank {VICTIM}")
    if kind == "thread" and world.rank == VICTIM:
        threading.Thread(target=time.sleep, args=(LIFE_SECONDS,)).start()
    if kind in ("raise", "launcher"):
        time.sleep(LIFE_SECONDS)


if __name__ == "__main__":
    main()
