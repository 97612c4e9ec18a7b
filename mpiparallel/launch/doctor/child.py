"""Asking a child process, which may crash, block or flood: the answer is there in time and of bounded size."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from mpiparallel.dataclass import dataclass

_MOST_BYTES = 1_000_000
_SECONDS_TO_STOP = 2.0


@dataclass(frozen=True)
class ChildAnswer:
    """How a child ended and what it said. ``code`` is None if it was not started or was stopped after its time.

    ``failure`` says in words how it ended; it is empty if it ended with exit code 0.
    """

    code: int | None
    output: str
    error: str
    seconds: float
    failure: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The JSON objects among the lines of its output, of which the last may be cut off."""
        return [found for line in self.output.splitlines() if (found := json_object(line)) is not None]

    @property
    def facts(self) -> dict[str, Any]:
        """All its `objects` as one."""
        return {name: value for found in self.objects for name, value in found.items()}

    @property
    def last_words(self) -> str:
        """The last line that it wrote to stderr, else to stdout."""
        lines = [line.strip() for line in f"{self.output}\n{self.error}".splitlines() if line.strip()]
        return lines[-1][:300] if lines else ""

    @property
    def complaint(self) -> str:
        """How it ended, with its last words; of a child that ended with exit code 0 those alone."""
        if not self.failure:
            return f"says {self.last_words or 'nothing'}"
        return f"{self.failure}: {self.last_words}" if self.last_words else self.failure


def json_object(line: str) -> dict[str, Any] | None:
    """Return the JSON object that ``line`` is, or None if it is none.

    >>> json_object('{"cores": 2}'), json_object("Welcome to node1!")
    ({'cores': 2}, None)
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def ask(argv: Sequence[str], variables: Mapping[str, str], seconds: float) -> ChildAnswer:
    """Run ``argv`` with the environment ``variables`` for at most ``seconds``, in a session of its own.

    A child that ignores its end is left behind, as one is that waits for a file server.

    >>> ask(["sh", "-c", "echo here; exit 3"], {"PATH": "/usr/bin:/bin"}, 5).complaint
    'ended with exit code 3: here'
    """
    start = time.monotonic()
    # Files in memory: a pipe would wait for whatever the child leaves behind, a folder may be what is broken.
    output, error = (os.memfd_create("doctor") for _ in range(2))
    try:
        process = subprocess.Popen(
            argv, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=error, start_new_session=True
        )
        code = _wait(process, seconds)
        failure = _failure(code, seconds)
    except OSError as failed:
        code, failure = None, f"cannot be started ({failed.strerror})"
    finally:
        texts = [_text(file) for file in (output, error)]
        os.close(output)
        os.close(error)
    return ChildAnswer(code, texts[0], texts[1], time.monotonic() - start, failure)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    with suppress(subprocess.TimeoutExpired):
        return process.wait(seconds)
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_STOP)
            break
    return None


def _failure(code: int | None, seconds: float) -> str:
    if code is None:
        return f"has not ended within {seconds:g} s"
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}" if code else ""


def _text(file: int) -> str:
    size = os.fstat(file).st_size
    return os.pread(file, _MOST_BYTES, max(0, size - _MOST_BYTES)).decode(errors="replace").replace("\0", "")
