"""Whatever strikes a job while it starts, saves, moves arrays or ends: it ends, blames who it was, and leaves nothing.

Fault, moment and rank are drawn from a seed, and so is what is full meanwhile: the launcher's stdout or the disk of the
logs. ``make test-reliability`` draws a few, ``make soak`` 200.
"""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mpiparallel.cluster.exit_codes import COMPLETED, FAILED, HUNG, SIGNALLED
from tests.conformance import patience
from tests.conformance.mpi_launcher import interpreters, library
from tests.reliability.counts import count, record
from tests.reliability.files.failing_disks import small_disk
from tests.reliability.launched_job import Ended, LaunchedJob
from tests.reliability.ranks import struck_ranks

pytestmark = pytest.mark.mpi

SIZE = 3
WATCHDOG = 3
DISK = 4 << 20
LONGEST_DELAY = 0.3
KILLED = SIGNALLED + signal.SIGKILL
SEED = 3
# The moments, and what the job does then.
MOMENTS = {
    "before MPI": "starting",
    "MPI_Init": "starting",
    "save 1": "saving",
    "save 2": "saving",
    "reshard": "resharding",
    "last line": "ending",
    "exit": "ending",
    "MPI_Finalize": "ending",
}
BEGUN = ("save 1", "save 2", "reshard", "last line")
ALIVE = ("before MPI", *BEGUN)
ANY = ("before MPI", "MPI_Init", *BEGUN, "exit", "MPI_Finalize")
OF_PYTHON = ("before MPI", *BEGUN, "exit")
# Each fault: the exit codes that are right, and when it can strike. Some let the job go on, and end it later or never.
FAULTS = {
    "killed": ((KILLED,), ANY),
    "stopped": ((HUNG,), ANY),
    "crash": ((SIGNALLED + signal.SIGSEGV,), ANY),
    "exception": ((FAILED,), ALIVE),
    "exit": ((struck_ranks.EXIT,), OF_PYTHON),
    "exit 0": ((FAILED,), OF_PYTHON),
    "sys.exit": ((struck_ranks.CODE,), ALIVE),
    "abort": ((struck_ranks.ABORT,), (*BEGUN, "exit")),
    # The last line of a script may take any time.
    "loop": ((HUNG,), ("before MPI", "save 1", "save 2", "reshard", "exit")),
    "thread": ((HUNG,), ALIVE),
    "exit handler": ((HUNG,), ALIVE),
    "stopped at last": ((HUNG,), OF_PYTHON),
    # Where nothing needs them any more, the job goes on; MPICH's MPI_Finalize fails without them.
    "descriptors": ((COMPLETED, FAILED, HUNG, 15), OF_PYTHON),
    # MPI does not start without it; all else goes on.
    "mpirun stopped": ((COMPLETED, HUNG), ANY),
    "mpirun killed": ((KILLED,), ANY),
    "nothing": ((COMPLETED,), ("last line",)),
}
# Who has called it stands in the rank's log alone, where MPI is MPICH.
UNNAMED = "abort", "log disk"
# What is full meanwhile, and how likely that is.
FULL = {"": 6, "stdout": 2, "log disk": 2}


class Strike(NamedTuple):
    """One job: what strikes which of its ranks and when, after how many seconds within MPI, and what is full."""

    fault: str
    moment: str
    victim: int
    seconds: float
    full: str

    @classmethod
    def drawn(cls, fault: str, moment: str, seed: str) -> Strike:
        """Return one of a fault at a moment, all else drawn from a seed."""
        chance = random.Random(seed)
        # Before the ranks have files, a full disk of the logs is a fault of its own.
        weights = [weight * (full != "log disk" or MOMENTS[moment] != "starting") for full, weight in FULL.items()]
        (full,) = chance.choices(list(FULL), weights)
        return cls(fault, moment, chance.randrange(SIZE), round(chance.uniform(0.0, LONGEST_DELAY), 3), full)


def strikes() -> list[Any]:
    """Return strikes at each MPI library as parameters: no fault again at one moment before all were there."""
    found = []
    every = [(fault, moment) for fault, (_, moments) in FAULTS.items() for moment in moments]
    for interpreter in interpreters():
        mpi = library(interpreter)
        order = random.Random(f"{SEED} {mpi}").sample(every, len(every))
        for number in range(count(100, 3)):
            fault, moment = order[number % len(order)]
            strike = Strike.drawn(fault, moment, f"{SEED} {mpi} {number}")
            words = fault, moment, f"rank{strike.victim}", strike.full and f"full {strike.full}"
            name = "-".join([mpi, *filter(None, words)])
            found.append(pytest.param(interpreter, strike, id=name.replace(" ", "_")))
    return found


@contextmanager
def disk_of(strike: Strike, notes: Path) -> Iterator[Path | None]:
    with small_disk(notes / "disk", DISK) if strike.full == "log disk" else nullcontext() as disk:
        yield disk


def ended(interpreter: Path, strike: Strike, notes: Path) -> Ended:
    options = ["--watchdog", str(patience.stretched(WATCHDOG))]
    words: list[object] = [*strike[:4]]
    with disk_of(strike, notes) as disk:
        if disk:
            options += ["--log-dir", str(disk / "logs")]
            words.append(disk)
        stdout = Path("/dev/full") if strike.full == "stdout" else None
        module = struck_ranks.__name__
        with LaunchedJob(interpreter, SIZE, module, notes, *words, options=tuple(options), stdout=stdout) as job:
            return job.end()


def blames(words: str, strike: Strike) -> bool:
    """Return whether the first line of an error names whom the fault has struck, and nobody else."""
    if strike.fault.startswith("mpirun"):
        return words.startswith(("mpirun itself was killed", "the job hung: mpirun is stopped"))
    victim = strike.victim
    waiting = rf"the job hung: ranks? \S+ waits? in .* for rank {victim},"
    leaving = rf"the job hung: rank {victim} (has ended its script, but its process has not left|is stopped by)"
    # Of MPICH, where its own words on the call were lost.
    unnamed = "one of 3 ranks ended the job: it called MPI_Abort" if (strike.fault, strike.full) == UNNAMED else "^$"
    return bool(re.match(rf"rank {victim} of {SIZE} |{waiting}|{leaving}|{unnamed}", words))


@pytest.mark.parametrize(("interpreter", "strike"), strikes())
def test_job_that_is_struck_ends_blames_the_right_one_and_leaves_nothing(
    interpreter: Path, strike: Strike, tmp_path: Path
) -> None:
    found = ended(interpreter, strike, tmp_path)
    codes, _ = FAULTS[strike.fault]
    assert found.code in codes, found.said
    if strike.fault == "mpirun stopped" and MOMENTS[strike.moment] != "starting":
        assert found.code == COMPLETED, found.said
    if found.code == COMPLETED:
        assert found.first_words == "", found.said
        assert len(list(tmp_path.glob("script?"))) == SIZE, f"a rank did not come to its end:\n{found.said}"
    else:
        assert blames(found.first_words, strike), found.said
        assert "completed" not in found.said, found.said
    assert not found.remain, f"{found.left} processes were left, and {found.remain} are still there"
    jobs = {"jobs": 1, MOMENTS[strike.moment]: 1}
    wrong = {"hung": 0, "wrong_culprits": 0, "processes_left": 0, "wrong_successes": 0}
    record(f"job struck by a fault: {library(interpreter)}, {strike.fault}", **jobs, **wrong)
