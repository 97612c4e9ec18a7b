from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from mpiparallel.launch.job.lost_output import LostOutput
from mpiparallel.launch.rank.exit_reporter import print_last_words
from mpiparallel.launch.rank.log_stream import LogStream, print_to_log


def test_what_a_full_disk_does_not_take_is_counted_and_raises_nothing() -> None:
    lost = LostOutput()
    full = os.open("/dev/full", os.O_WRONLY)
    with io.TextIOWrapper(io.BufferedWriter(LogStream(full, "<stdout>", lost)), line_buffering=True) as stream:
        for line in range(1000):
            print(line, file=stream)
    os.close(full)
    assert (lost.size, lost.reason) == (3890, "No space left on device")


class Meddler:
    """A stream that a script has put in the place of stderr."""

    def write(self, words: str) -> None:
        raise KeyError(words)

    def flush(self) -> None:
        raise KeyError


@pytest.mark.parametrize("stream", [None, Meddler(), io.StringIO()])
def test_last_words_come_to_the_log_past_any_stream(
    stream: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    monkeypatch.setattr("sys.stderr", stream)
    print_last_words("the end\n", log)
    assert log.read_text() == "before\nthe end\n"


def test_last_words_that_came_to_the_log_are_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    with log.open("a") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        print_last_words("the end\n", log)
    assert log.read_text() == "the end\n"


def test_what_is_printed_comes_to_the_descriptors_of_the_log_line_by_line_and_no_letter_is_refused(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    lost = print_to_log()
    print("caf\u00e9 \udce9")
    print("no end", end="")
    print("odd", file=sys.stderr)
    assert (sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__) == (True, True)
    assert [stream.buffer.raw.name for stream in (sys.stdout, sys.stderr)] == ["<stdout>", "<stderr>"]  # type: ignore[union-attr]
    assert capfdbinary.readouterr() == ("caf\u00e9 \\udce9\n".encode(), b"odd\n")
    sys.stdout.flush()
    assert (capfdbinary.readouterr().out, bool(lost)) == (b"no end", False)
