"""The stdout of a command: what keeps it from being written to is remembered, whatever takes the place of a stream."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mpiparallel.launch.job.standard_output import StandardOutput


@contextmanager
def own_stdout(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.TextIOWrapper]:
    """Let a stream of Python's own be stdout, as at the start of a program."""
    with (
        os.fdopen(os.dup(1), "w", encoding="latin-1", errors="xmlcharrefreplace") as stream,
        monkeypatch.context() as own,
    ):
        own.setattr(sys, "stdout", stream)
        own.setattr(sys, "__stdout__", stream)
        yield stream


def test_what_is_printed_comes_to_descriptor_1_in_the_encoding_of_before(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with own_stdout(monkeypatch) as before:
        output = StandardOutput.taken()
        assert sys.stdout is not before
        assert sys.stdout.buffer.raw is output  # type: ignore[union-attr]
        assert (sys.stdout.line_buffering, output.name) == (before.line_buffering, "<stdout>")  # type: ignore[attr-defined]
        print("caf\u00e9 \u6771", flush=True)
    assert (capfdbinary.readouterr().out, output.error) == (b"caf\xe9 &#26481;\n", None)


def test_the_first_refusal_is_remembered_whoever_has_caught_it() -> None:
    output = StandardOutput()
    kept = os.dup(1)
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        os.dup2(full, 1)
        for _ in range(2):
            with pytest.raises(OSError, match="No space left on device"):
                output.write(b"words")
        first = output.error
        os.close(1)
        with pytest.raises(OSError, match="Bad file descriptor"):
            output.write(b"words")
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(full)
    assert first is not None
    assert (output.error, first.errno) == (first, errno.ENOSPC)
    assert output.write(b"") == 0


def test_a_stream_that_a_program_has_put_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    own = io.StringIO()
    monkeypatch.setattr(sys, "stdout", own)
    StandardOutput.taken()
    assert sys.stdout is own


@pytest.mark.parametrize("number", [1, 2])
def test_the_next_file_does_not_get_the_number_of_a_closed_stream(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = os.dup(number)
    if number == 1:
        monkeypatch.setattr(sys, "stdout", None)
        monkeypatch.setattr(sys, "__stdout__", None)
    else:
        monkeypatch.setattr(sys, "stderr", None)
    os.close(number)
    try:
        StandardOutput.taken()
        with (tmp_path / "file").open("w") as file:
            assert file.fileno() > 2
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(number, b"words")
        assert sys.stdout is not None
        assert sys.stderr is not None
        assert (sys.stderr.errors, sys.stderr.fileno()) == ("backslashreplace", 2) or number == 1
        assert sys.stdout.errors == "backslashreplace" or number == 2
    finally:
        os.dup2(kept, number)
        os.close(kept)
