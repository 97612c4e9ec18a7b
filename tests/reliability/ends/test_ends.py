"""A job ends, and leaves no process, when its scripts have ended: whatever ranks leave behind, and whoever stays."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from mpiparallel.cluster.exit_codes import HUNG, SIGNALLED
from tests.conformance import patience
from tests.conformance.mpi_launcher import interpreters, library
from tests.reliability.launched_job import Ended, LaunchedJob
from tests.reliability.ranks.leaving_ranks import KINDS

pytestmark = pytest.mark.mpi

SIZE = 3
VICTIM = 1
MODULE = "tests.reliability.ranks.leaving_ranks"
WATCHDOG = 5
OPTIONS = ("--watchdog", str(WATCHDOG))
SUCCESS = "mpiparallel: all 3 ranks completed; mpirun did not end after them, so it was ended"
STAYS = f"the job hung: rank {VICTIM} has ended its script, but its process has not left within {WATCHDOG} s: "
WORDS = {
    "thread": "held by a thread that is no daemon, or by an exit handler",
    "exit handler": "held by a thread that is no daemon, or by an exit handler",
    "stopped": "stopped by a signal",
    "stopped at last": "stopped by a signal",
    "descriptors": "descriptors that the script had not opened are closed, and MPI needs them to finalize",
}
CODES = {
    "children": 0,
    "children and death": SIGNALLED + signal.SIGKILL,
    "children and launcher": -signal.SIGKILL,
    "children kept": 0,
}
BOTH = pytest.mark.parametrize("interpreter", interpreters(), ids=library)


def ended(interpreter: Path, notes: Path, kind: str) -> Ended:
    with LaunchedJob(interpreter, SIZE, MODULE, notes, kind, VICTIM, options=OPTIONS) as job:
        found = job.end()
    assert not found.remain, f"{found.left} processes were left, and {found.remain} are still there"
    return found


@pytest.mark.parametrize("kind", WORDS)
@BOTH
def test_rank_whose_process_does_not_leave_is_named_and_ended(interpreter: Path, kind: str, tmp_path: Path) -> None:
    found = ended(interpreter, tmp_path, kind)
    if (library(interpreter), kind) == ("mpich", "descriptors"):
        # MPICH's MPI_Finalize fails, and does not hang.
        words = f"rank {VICTIM} of {SIZE} left with exit code 15 after its script had ended"
        assert (found.code, found.first_words[: len(words)]) == (15, words), found.said
        return
    assert (found.code, found.first_words) == (HUNG, STAYS + WORDS[kind]), found.said


@pytest.mark.parametrize("kind", sorted(set(KINDS) - set(WORDS)))
@BOTH
def test_job_whose_ranks_have_all_ended_well_is_a_success_also_where_mpirun_does_not_end(
    interpreter: Path, kind: str, tmp_path: Path
) -> None:
    found = ended(interpreter, tmp_path, kind)
    assert (found.code, SUCCESS in found.said) == (0, kind != "late"), found.said


def children(notes: Path) -> dict[int, str]:
    """Return the processes whose words name the file that each child is given."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if f"{notes}/child-" in words:
                found[int(process.name)] = words
    return found


@pytest.mark.parametrize(
    ("interpreter", "kind"),
    [
        pytest.param(interpreter, kind, id=f"{library(interpreter)}-{kind}")
        for interpreter, kind in product(interpreters(), CODES)
    ],
)
def test_no_process_that_a_rank_has_started_outlives_the_job_unless_it_is_told_to(
    interpreter: Path, kind: str, tmp_path: Path
) -> None:
    # Of the same user and with the same words, but of no rank.
    stranger = subprocess.Popen(["sh", "-c", "while :; do sleep 1; done", tmp_path / "child-of-nobody"])
    options = ("--keep-children",) if kind == "children kept" else ()
    try:
        with LaunchedJob(interpreter, SIZE, MODULE, tmp_path, kind, VICTIM, options=options) as job:
            if kind == "children and launcher":
                job.wait_for(lambda: len(list(tmp_path.glob("up*"))) == SIZE)
                job.strike(signal.SIGKILL)
            assert job.wait() == CODES[kind], job.said()
            if kind == "children kept":
                assert len([words for words in children(tmp_path).values() if "daemon" in words]) == SIZE
                return
            # Where mpirun or the launcher is in a hurry, it does not wait for the guards.
            if kind != "children":
                patience.wait_until(lambda: children(tmp_path).keys() == {stranger.pid})
            assert children(tmp_path).keys() == {stranger.pid}
            assert len(list(tmp_path.glob("child-?-*"))) == 3 * SIZE
            assert ("has left processes running" in job.printed_by(VICTIM)) == (kind == "children")
    finally:
        stranger.kill()
        stranger.wait()
        for process in children(tmp_path):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
