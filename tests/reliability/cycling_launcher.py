"""One process that launches jobs one after the other, each killed, preempted or left alone: ``notes cycles seed``.

It writes a line of JSON for each: how the job ended, and what this process and the host hold afterwards.
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from mpiparallel.launch.cli import main as mpiparallel
from tests.conformance.patience import Patience

RANKS = 2
MODULE = "tests.reliability.ranks.preempted_ranks"
KIND = "saved at once"
ENDS = ("killed", "killed", "preempted", "left alone")
LONGEST_LIFE = 0.5
SECONDS_TO_VANISH = 3.0
_NAP = 0.005


def main() -> None:
    notes, cycles, chance = Path(sys.argv[1]), int(sys.argv[2]), random.Random(sys.argv[3])
    # It may come when the job has ended.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    training = 0
    for cycle in range(cycles):
        end = chance.choice(ENDS)
        forget(notes)
        striker = threading.Thread(target=strike, args=(notes, end, chance.uniform(0.0, LONGEST_LIFE), chance.random()))
        striker.start()
        code = launch(notes, training)
        (notes / "over").touch()
        striker.join()
        training += code == 0
        with (notes / "cycles").open("a") as file:
            file.write(json.dumps({"cycle": cycle, "end": end, "code": code, **held(notes)}) + "\n")


def launch(notes: Path, training: int) -> int:
    folder = str(notes / f"checkpoints {training}")
    words = ["run", "-n", str(RANKS), "--log-dir", str(notes / "logs"), "-m", MODULE, str(notes), folder, KIND]
    return mpiparallel(words)


def forget(notes: Path) -> None:
    """Remove what the last job has noted."""
    (notes / "ranks").mkdir(exist_ok=True)
    for path in (*(notes / "ranks").iterdir(), *notes.glob("segments_*"), notes / "going", notes / "over"):
        path.unlink(missing_ok=True)


def strike(notes: Path, end: str, life: float, choice: float) -> None:
    """Once the job trains, let it live a while, and end it."""
    while not (notes / "going").exists() and not (notes / "over").exists():
        time.sleep(_NAP)
    time.sleep(life)
    pids = pids_of(notes)
    if end == "preempted":
        os.kill(os.getpid(), signal.SIGUSR1)
    elif end == "killed" and pids:
        with suppress(ProcessLookupError):
            os.kill(pids[int(choice * len(pids))], signal.SIGKILL)


def pids_of(notes: Path) -> list[int]:
    return sorted(int(path.name) for path in (notes / "ranks").iterdir())


def held(notes: Path) -> dict[str, Any]:
    """Return what is open here, and what is left of the job on the host, after the seconds it may take to vanish."""
    own = Path("/proc/self")
    gc.collect()
    vanishing = Patience(SECONDS_TO_VANISH)
    while (left := left_of(notes)) != {"ranks": 0, "segments": 0} and vanishing.is_left():
        time.sleep(_NAP)
    return {
        **left,
        "descriptors": len(list((own / "fd").iterdir())),
        "threads": len(list((own / "task").iterdir())),
        "children": len((own / "task" / str(os.getpid()) / "children").read_text().split()),
        "kilobytes": int((own / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024,
        "temporary": len(list(Path(os.environ["TMPDIR"]).iterdir())),
        "logs": sum(1 for path in (notes / "logs").rglob("*") if path.is_file()),
    }


def left_of(notes: Path) -> dict[str, int]:
    segments = {name for path in notes.glob("segments_*") for name in path.read_text().split("\n") if name}
    return {
        "ranks": sum(Path(f"/proc/{pid}").exists() for pid in pids_of(notes)),
        "segments": sum(Path(name).exists() for name in segments),
    }


if __name__ == "__main__":
    main()
