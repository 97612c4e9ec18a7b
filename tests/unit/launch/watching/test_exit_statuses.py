"""How a rank ended that could not say it itself: by the words of mpirun, or the last ones of Python in its log."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mpiparallel.launch.job.rank_folder import RankFolder
from mpiparallel.launch.watching.exit_statuses import exit_statuses, fatal_signal


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS], ids=lambda number: number.name)
def test_what_python_says_of_a_fatal_signal_gives_the_exit_code_that_a_shell_would_tell(
    tmp_path: Path, number: signal.Signals
) -> None:
    folder = RankFolder(tmp_path, 0)
    folder.log.parent.mkdir(parents=True, exist_ok=True)
    program = f"import faulthandler, os; faulthandler.enable(); os.kill(os.getpid(), {int(number)})"
    with folder.log.open("wb") as log:
        log.write(b"a line before\n" * 10_000)
        log.flush()
        code = subprocess.run([sys.executable, "-c", program], stderr=log, check=False).returncode
    assert fatal_signal(folder) == 128 - code == 128 + number


def test_a_rank_without_a_log_or_without_such_words_tells_of_no_signal(tmp_path: Path) -> None:
    folder = RankFolder(tmp_path, 0)
    assert fatal_signal(folder) is None
    folder.log.parent.mkdir(parents=True, exist_ok=True)
    folder.log.write_text("all is well\n")
    assert fatal_signal(folder) is None


SIGNALLED = "prterun noticed that process rank 2 with PID 7 on node n0 exited on\nsignal 9 (Killed).\n"
LEFT = "  Process name: [prterun-n0-316@1,1]\n  Exit code:    3\n"
IMPROPER = "prterun has exited due to process rank 3 with PID 9 on node n0 exiting\nimproperly. There are three\n"


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("", {}),
        (SIGNALLED, {2: 137}),
        (LEFT, {1: 3}),
        (IMPROPER, {3: 0}),
        (SIGNALLED + LEFT + IMPROPER, {1: 3, 2: 137, 3: 0}),
        (SIGNALLED.replace("rank 2", "rank 4"), {}),
        (SIGNALLED.replace("rank 2", "rank 5"), {}),
        (SIGNALLED.replace("signal 9", "signal 127"), {2: 255}),
        (SIGNALLED.replace("signal 9", "signal 128"), {}),
        (LEFT.replace("code:    3", "code:    255"), {1: 255}),
        (LEFT.replace("code:    3", "code:    256"), {}),
        ("[mpiexec@n0] Exit codes: [n0] 0,9 [n1] 1280,15\n", {0: 0, 1: 137, 2: 5, 3: 143}),
        ("[mpiexec@n0] Exit codes: 0, 0, 0, 256\n", {0: 0, 1: 0, 2: 0, 3: 1}),
        ("[mpiexec@n0] Exit codes: [n0] 0,9\n", {}),
        ("[mpiexec@n0] Exit codes: [n0] 0,9 [n1] 1280,15,0\n", {}),
        ("[mpiexec@n0] Exit codes: [n0] 0,9 [n1] 1280,-1\n", {}),
        ("of a rank: [mpiexec@n0] Exit codes: [n0] 0,9 [n1] 1280,15\n", {}),
        ("before\n[mpiexec@n0] Exit codes: [n0] 0,0,0,9\nafter\n", {0: 0, 1: 0, 2: 0, 3: 137}),
    ],
)
def test_what_either_mpirun_says_of_its_processes_is_their_exit_codes(output: str, told: dict[int, int]) -> None:
    assert dict(exit_statuses(output, 4)) == told


FATAL = "Fatal Python error: Segmentation fault\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (FATAL, 128 + signal.SIGSEGV),
        (f"{FATAL}Fatal Python error: Aborted\n", 128 + signal.SIGABRT),
        ("Fatal Python error: Illegal instruction\n", 128 + signal.SIGILL),
        ("Fatal Python error: Floating-point exception\n", 128 + signal.SIGFPE),
        ("Fatal Python error: Bus error\n", 128 + signal.SIGBUS),
        ("Fatal Python error: init_sys_streams: cannot\n", None),
        (f"it said {FATAL}", None),
        (f"{FATAL}{'x' * (64 * 1024 - len(FATAL))}", 128 + signal.SIGSEGV),
        # Of what was said long ago the rank has not died.
        (f"{FATAL}{'x' * (64 * 1024)}", None),
    ],
)
def test_only_the_last_fatal_error_near_the_end_of_a_log_is_a_death_by_signal(
    text: str, code: int | None, tmp_path: Path
) -> None:
    folder = RankFolder(tmp_path, 0)
    folder.path.mkdir()
    folder.log.write_text(text)
    assert fatal_signal(folder) == code
