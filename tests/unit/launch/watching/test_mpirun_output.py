"""What mpirun prints is whole whatever becomes of the log that it is copied to."""

from __future__ import annotations

import os
import re
from pathlib import Path
from unittest import mock

import pytest

from mpiparallel.errors import LaunchError
from mpiparallel.launch.watching.mpirun_output import MpirunOutput


def test_log_gets_what_is_printed_as_it_comes_but_what_it_does_not_take_is_only_lost_there(tmp_path: Path) -> None:
    log = tmp_path / "launcher.log"
    log.write_text("of an earlier job")
    with MpirunOutput(log) as output:
        os.write(output.descriptor, b"one\n")
        output.copy()
        assert (log.read_text(), bool(output.lost)) == ("one\n", False)
        os.write(output.descriptor, b"\xfftwo\n")
        with mock.patch.object(os, "write", side_effect=OSError(28, "No space left on device")):
            output.copy()
        assert (log.read_text(), str(output.lost)) == ("one\n", "5 bytes (No space left on device)")
        assert output.text() == "one\n\ufffdtwo\n"
        output.copy()
        assert (log.read_bytes(), bool(output.lost)) == (b"one\n\xfftwo\n", False)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_log_that_is_no_regular_file_is_refused_by_its_name_and_left_alone(tmp_path: Path, kind: str) -> None:
    log, other = tmp_path / "launcher.log", tmp_path / "other"
    other.write_text("of somebody")
    {"link": lambda: log.symlink_to(other), "pipe": lambda: os.mkfifo(log), "folder": log.mkdir}[kind]()
    with pytest.raises(LaunchError, match=f"^{re.escape(str(log))}: it is a {kind}"):
        MpirunOutput(log)
    assert other.read_text() == "of somebody"


def test_what_mpirun_prints_is_in_memory_and_both_ends_are_closed(tmp_path: Path) -> None:
    with MpirunOutput(tmp_path / "launcher.log") as output:
        number = output.descriptor
        assert str(Path(f"/proc/self/fd/{number}").readlink()).startswith("/memfd:mpirun")
        assert not os.get_inheritable(number)
        files = len(list(Path("/proc/self/fd").iterdir()))
    assert len(list(Path("/proc/self/fd").iterdir())) == files - 2


def test_more_than_is_read_at_once_comes_to_the_log_whole(tmp_path: Path) -> None:
    with MpirunOutput(tmp_path / "launcher.log") as output:
        os.write(output.descriptor, b"x" * 200_000)
        output.copy()
        assert (tmp_path / "launcher.log").read_bytes() == b"x" * 200_000
        assert output.text() == "x" * 200_000
        assert not output.lost


def test_the_first_reason_why_a_log_took_no_more_is_told(tmp_path: Path) -> None:
    with MpirunOutput(tmp_path / "launcher.log") as output:
        os.write(output.descriptor, b"one\n")
        for error in (OSError(28, "No space left on device"), OSError(5, "Input/output error")):
            with mock.patch.object(os, "write", side_effect=error):
                output.copy()
        assert str(output.lost) == "4 bytes (No space left on device)"
