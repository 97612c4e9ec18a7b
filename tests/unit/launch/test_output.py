"""What commands do where their output cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COMMANDS = {
    "help": "--help",
    "dry run": "run --dry-run --mpi openmpi -n 2 script.py",
    "refusal": "run --dry-run --mpi openmpi -n 2 missing.py",
}
FULL, CLOSED = "No space left on device", "Bad file descriptor"


def ended(folder: Path, command: str, redirection: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").touch()
    line = f"{sys.executable} -m mpiparallel {command} {redirection}; exit ${{PIPESTATUS[0]}}"
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(["bash", "-c", line], cwd=folder, env=variables, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("command", ["help", "dry run"])
@pytest.mark.parametrize(("redirection", "reason"), [(">/dev/full", FULL), (">&-", CLOSED)])
def test_output_that_cannot_be_written_is_an_error_in_one_line(
    tmp_path: Path, command: str, redirection: str, reason: str
) -> None:
    found = ended(tmp_path, COMMANDS[command], redirection)
    assert found.stderr == f"mpiparallel: error: stdout: {reason}; what this prints is not all there\n"
    assert found.returncode == 1


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-", ">/dev/full 2>&1", ">&- 2>&-"])
def test_refusal_keeps_its_exit_code_where_it_cannot_be_said(tmp_path: Path, redirection: str) -> None:
    assert ended(tmp_path, COMMANDS["refusal"], redirection).returncode == 2


@pytest.mark.parametrize("redirection", ["| (exec <&-)", "2>&1 | (exec <&-)"])
def test_reader_that_has_gone_ends_a_command_without_a_word(tmp_path: Path, redirection: str) -> None:
    found = ended(tmp_path, COMMANDS["help"], redirection)
    assert (found.stderr, found.returncode) == ("", 141)
