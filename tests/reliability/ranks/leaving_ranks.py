"""Ranks whose scripts end, one of which then does not leave, or leaves processes: ``notes kind victim``."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from mpiparallel.communication import init
from mpiparallel.communication.world import current

LONGEST_LIFE = 600.0
LATE_SECONDS = 11.0
# What starts ranks on a host: mpirun itself, and MPICH's proxy, which it starts for that.
MPIRUNS, PROXIES = ("prterun", "mpirun", "mpiexec", "mpiexec.hydra"), ("prterun", "hydra_pmi_proxy")
KEPT: list[object] = []


class StoppedAtLast:
    """Stops this process when the interpreter lets it go, which is after all exit handlers."""

    def __init__(self) -> None:
        self._stop = partial(os.kill, os.getpid(), signal.SIGSTOP)

    def __del__(self) -> None:
        self._stop()


def leave_thread() -> None:
    threading.Thread(target=time.sleep, args=(LONGEST_LIFE,)).start()


def starter_of(names: tuple[str, ...]) -> int:
    """Return the nearest process of one of these names above this one."""
    process, name = os.getpid(), ""
    while name not in names:
        status = Path(f"/proc/{process}/stat").read_text()
        process = int(status.rpartition(")")[2].split()[1])
        name = Path(f"/proc/{process}/comm").read_text().strip()
    return process


def leave_children(notes: Path) -> None:
    """Start a child that reads from a pipe, one that ignores to be told, and one in a session of its own."""
    script = notes / f"script-{current().rank}.sh"
    script.write_text("trap '' TERM HUP INT; touch $1; while :; do sleep 1; done")
    reader = 'touch "$0"; while read line; do :; done; while :; do sleep 1; done'
    names = [notes / f"child-{current().rank}-{kind}" for kind in ("reader", "deaf", "daemon")]
    KEPT.append(subprocess.Popen(["sh", "-c", reader, names[0]], stdin=subprocess.PIPE))
    subprocess.Popen(["sh", script, names[1]])
    # Neither a mark in the environment nor the parent leads to this one.
    daemon = f"(setsid sh {script} {names[2]} </dev/null >/dev/null 2>&1 &)"
    subprocess.run(["sh", "-c", daemon], env={"PATH": os.environ["PATH"]}, check=True)
    while not all(name.exists() for name in names):
        time.sleep(0.01)


KINDS: Mapping[str, Callable[[], object]] = {
    "thread": leave_thread,
    "exit handler": lambda: atexit.register(time.sleep, LONGEST_LIFE),
    "stopped": lambda: atexit.register(os.kill, os.getpid(), signal.SIGSTOP),
    "stopped at last": lambda: KEPT.append(StoppedAtLast()),
    "descriptors": lambda: os.closerange(3, os.sysconf("SC_OPEN_MAX")),
    "mpirun": lambda: os.kill(starter_of(MPIRUNS), signal.SIGSTOP),
    "proxy": lambda: os.kill(starter_of(PROXIES), signal.SIGSTOP),
    "late": lambda: time.sleep(LATE_SECONDS),
}


def main() -> None:
    notes, kind, victim = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    init()
    world = current()
    if kind.startswith("children"):
        leave_children(notes)
    world.barrier()
    (notes / f"up{world.rank}").touch()
    if world.rank == victim:
        if kind in KINDS:
            KINDS[kind]()
        elif kind == "children and death":
            os.kill(os.getpid(), signal.SIGKILL)
    if kind in ("children and death", "children and launcher"):
        time.sleep(LONGEST_LIFE)


if __name__ == "__main__":
    main()
