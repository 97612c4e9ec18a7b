"""How a job failed is told, though the failing rank cannot write it, nor the launcher show what it is told."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.cluster.exit_codes import COMPLETED, FAILED, SIGNALLED
from tests.conformance.mpi_launcher import environment, interpreters, library
from tests.reliability.ends.test_failures import check_gone, sampled
from tests.reliability.files.failing_disks import small_disk
from tests.reliability.launched_job import ROOT, Ended, LaunchedJob
from tests.reliability.ranks import telling_ranks
from tests.reliability.ranks.telling_ranks import CODE, ON_FULL_DISK, STDERRS, VICTIM, WORDS

pytestmark = pytest.mark.mpi

SIZE = 3
DISK = 4 << 20
FIRST = f"rank {VICTIM} of {SIZE} failed first: "
SHOWN = r"\x1b[2J\x1b]0;title\x07 \x9b31m \u202e end"
# What the first line of the error is, and the exit code.
TOLD = {
    "many lines": (f"{FIRST}ValueError: {WORDS}$", FAILED),
    "much": (f"{FIRST}ValueError: {WORDS} xxx", FAILED),
    "slow": (f"{FIRST}.*SlowError: {WORDS}$", FAILED),
    "unspeakable": (f"{FIRST}.*UnspeakableError", FAILED),
    "control characters": (f"{FIRST}ValueError: {WORDS} {re.escape(SHOWN)}$", FAILED),
    "abort": (f"rank {VICTIM} of {SIZE} ended the job: it called MPI_Abort with code {CODE}$", CODE),
    "killed": (f"rank {VICTIM} of {SIZE} died first: killed by SIGKILL", SIGNALLED + signal.SIGKILL),
    "memory": (f"{FIRST}mpiparallel.errors.ReshardError: rank {VICTIM}: no memory here$", FAILED),
}
UNPRINTABLE = re.compile("[^\t\n -~]")


def on_each(kinds: Sequence[str], few: int) -> list[Any]:
    """Return the kinds as parameters for each MPI library, ``few`` of them where not all are asked for."""
    chosen = sampled(list(product(interpreters(), kinds)), few * len(interpreters()), f"telling {kinds[0]}")
    return [pytest.param(one, kind, id=f"{library(one)}-{kind}".replace(" ", "-")) for one, kind in chosen]


def ended(interpreter: Path, kind: str, notes: Path, disk: Path | None = None) -> Ended:
    where = ("--log-dir", str(disk / "logs")) if disk else ()
    module = telling_ranks.__name__
    with LaunchedJob(interpreter, SIZE, module, notes, kind, disk or notes, options=where) as job:
        found = job.end()
    check_gone(found)
    assert "Traceback" not in found.first_words, found.said
    assert found.code == COMPLETED or "completed" not in found.said, found.said
    return found


@pytest.mark.parametrize(("interpreter", "kind"), on_each(list(STDERRS), 2))
def test_exception_is_named_whatever_the_script_has_made_of_stderr(
    interpreter: Path, kind: str, tmp_path: Path
) -> None:
    found = ended(interpreter, kind, tmp_path)
    assert (found.first_words, found.code) == (f"{FIRST}ValueError: {WORDS}", FAILED), found.said
    log = (tmp_path / "logs" / f"device{VICTIM}" / f"train.log{VICTIM}").read_text()
    assert log.endswith(f"ValueError: {WORDS}\n"), log


@pytest.mark.parametrize(("interpreter", "kind"), on_each(list(TOLD), 4))
def test_failure_that_is_hard_to_tell_is_told_in_one_line_of_the_rank_that_had_it(
    interpreter: Path, kind: str, tmp_path: Path
) -> None:
    words, code = TOLD[kind]
    found = ended(interpreter, kind, tmp_path)
    assert re.match(words, found.first_words), found.said[:5000]
    assert found.code == code
    assert not UNPRINTABLE.search(found.said)
    assert len(found.said) < 30_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system."""
    with small_disk(tmp_path / "disk", DISK) as folder:
        yield folder


@pytest.mark.parametrize("interpreter", interpreters(), ids=library)
@pytest.mark.parametrize("kind", ["full disk", "full disk, and an exception"])
def test_full_disk_of_the_logs_is_named_and_ends_no_job(
    interpreter: Path, kind: str, tmp_path: Path, disk: Path
) -> None:
    found = ended(interpreter, kind, tmp_path, disk)
    said = rf"bytes \(No space left on device\) of output are lost, as {disk / 'logs'} took no more"
    lost = rf"^mpiparallel: warning: ranks? [0-9-]+: [0-9,]+ {said}"
    assert len(re.findall(lost, found.said, re.MULTILINE)) == 1, found.said
    if kind == "full disk":
        assert (found.code, found.first_words) == (COMPLETED, ""), found.said
    else:
        assert (found.first_words, found.code) == (f"{FIRST}ValueError: {WORDS}", FAILED), found.said


@pytest.mark.parametrize("kind", ["killed", "abort"])
@pytest.mark.parametrize("interpreter", interpreters(), ids=library)
def test_code_that_only_mpirun_tells_is_right_also_where_the_disk_takes_no_word_of_it(
    interpreter: Path, kind: str, tmp_path: Path, disk: Path
) -> None:
    found = ended(interpreter, f"{ON_FULL_DISK}{kind}", tmp_path, disk)
    words, code = TOLD[kind]
    is_silent = (library(interpreter), kind) == ("mpich", "abort")
    if is_silent:
        # Who has called it stands in its log alone, and its call returns: it may have gone on to wait for the others.
        words = f"one of {SIZE} ranks ended the job: it called MPI_Abort with code {CODE}; no log has"
    assert found.code == code, found.said
    assert re.match(words, found.first_words), found.said
    lost = rf"warning: mpirun: [0-9,]+ bytes \(No space left on device\) .* {disk / 'logs'} "
    assert bool(re.search(lost, found.said)) != is_silent, found.said


@pytest.mark.parametrize("interpreter", interpreters(), ids=library)
def test_output_that_cannot_be_shown_changes_no_exit_code_and_is_said_once(interpreter: Path, tmp_path: Path) -> None:
    program = tmp_path / "script.py"
    program.write_text("import sys, time\nprint('x' * 100_000, flush=True)\nsys.exit(int(sys.argv[1]))\n")
    told = {
        ">/dev/full": "No space left on device",
        ">&-": "Bad file descriptor",
        ">/dev/full 2>&1": "No space left on device",
        ">&- 2>&-": "Bad file descriptor",
        "2>&1 | head -n 1": "Broken pipe",
        "2>/dev/full": "",
        "2>&-": "",
    }
    for number, (redirection, reason) in enumerate(told.items()):
        code = 7 * (number % 2)
        command = f"{interpreter} -m mpiparallel run -n 1"
        shown = subprocess.run(
            ["bash", "-c", f"{command} script.py {code} {redirection}; exit ${{PIPESTATUS[0]}}"],
            cwd=tmp_path,
            env=environment(ROOT),
            capture_output=True,
            text=True,
        )
        assert shown.returncode == code, (redirection, shown)
        assert "Traceback" not in shown.stderr, (redirection, shown)
        log = (tmp_path / "launcher.log").read_text()
        assert len(re.findall(rf"stdout took no more: [0-9,]+ bytes \({reason}\)", log)) == bool(reason), redirection
        is_told_here = bool(reason) and "2>" not in redirection
        assert shown.stderr.count("stdout took no more") == is_told_here, (redirection, shown)
        if code and "2>" in redirection:
            assert "failed first: it left with exit code 7" in log
