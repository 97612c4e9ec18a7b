"""How a rank ended that could not say it itself: by the last words of Python in its log."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mpiparallel.launch.job.rank_folder import RankFolder
from mpiparallel.launch.watching.exit_statuses import fatal_signal


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
