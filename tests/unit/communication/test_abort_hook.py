from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpiparallel.communication import abort_hook
from tests.conformance import patience

BROKEN = """
import os, sys
from mpiparallel.communication.abort_hook import abort_on_uncaught_exception
abort_on_uncaught_exception(lambda error: os._exit(7))
sys.stdout.close()
raise ValueError
"""

PROGRAM = """
import os, sys
from mpiparallel.communication.abort_hook import let_last_words_through
sys.stderr.write("x" * 4096)
let_last_words_through()
os.write(1, b"through")
"""


def test_a_rank_waits_until_its_last_words_are_read() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert select.select([process.stderr], [], [], 60)[0]
        assert not select.select([process.stdout], [], [], 0.5)[0]
        assert process.stderr.read(4096) == b"x" * 4096
        assert process.stdout.read() == b"through"


def test_a_rank_whose_streams_are_closed_ends_the_job_all_the_same() -> None:
    assert patience.run([sys.executable, "-c", BROKEN], stderr=subprocess.DEVNULL).returncode == 7


@pytest.mark.parametrize("waiting", [False, True])
def test_a_rank_waits_two_seconds_for_readers_and_a_fifth_for_what_they_have_read(
    monkeypatch: pytest.MonkeyPatch, waiting: bool
) -> None:
    naps: list[float] = []
    monkeypatch.setattr(abort_hook, "_unread_bytes", lambda descriptor: waiting and descriptor == 2)
    monkeypatch.setattr(abort_hook, "time", SimpleNamespace(monotonic=lambda: sum(naps), sleep=naps.append))
    abort_hook.let_last_words_through()
    assert naps.pop() == 0.2
    assert sum(naps) == pytest.approx(2.0 if waiting else 0.0, abs=0.006)
    assert set(naps) == ({0.005} if waiting else set())


def test_bytes_are_unread_in_pipes_only(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"x" * 300)
    assert abort_hook._unread_bytes(writing) == 300
    os.read(reading, 299)
    assert abort_hook._unread_bytes(writing) == 1
    for descriptor in (reading, writing):
        os.close(descriptor)
    # Where a stream is closed nobody reads.
    assert abort_hook._unread_bytes(writing) == 0
    (tmp_path / "log").write_text("words")
    with (tmp_path / "log").open() as file:
        assert abort_hook._unread_bytes(file.fileno()) == 0


@pytest.mark.parametrize("breaks", [False, True])
def test_an_error_is_reported_and_then_ends_the_job_once(monkeypatch: pytest.MonkeyPatch, breaks: bool) -> None:
    told: list[object] = []

    def report(*error: object) -> None:
        told.append(error)
        if breaks:
            raise BrokenPipeError

    def tell(word: str) -> Callable[..., None]:
        return lambda *error: told.append((word, *error))

    monkeypatch.setattr(sys, "excepthook", report)
    monkeypatch.setattr(abort_hook, "let_last_words_through", tell("through"))
    for word in ("first", "second"):
        abort_hook.abort_on_uncaught_exception(tell(word))
    error = ValueError("no data")
    hook = sys.excepthook
    if breaks:
        with pytest.raises(BrokenPipeError):
            hook(ValueError, error, None)
    else:
        hook(ValueError, error, None)
    assert told == [(ValueError, error, None), *([] if breaks else [("through",)]), ("first", error)]
