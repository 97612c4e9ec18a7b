"""Talking with a program on another host, a line of JSON each way, within a time."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

from mpiparallel.launch.doctor.child import json_object

_MOST_BYTES = 4_000_000
_TAIL_BYTES = 65536
_SECONDS_TO_STOP = 1.0


class Conversation:
    """A child in a session of its own that is asked by `ask`; it is ended where the ``with`` block ends.

    Raises OSError where the child cannot be started. `ending` says why it gave no answer.
    """

    def __init__(self, argv: Sequence[str], variables: Mapping[str, str]) -> None:
        self._error = os.memfd_create("doctor")
        try:
            self._process = subprocess.Popen(
                argv,
                env=variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._error,
                start_new_session=True,
                bufsize=0,
            )
        except OSError:
            os.close(self._error)
            raise
        self._heard = b""
        self._bytes = 0

    def __enter__(self) -> Conversation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_SECONDS_TO_STOP)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        os.close(self._error)

    def ask(self, question: Mapping[str, Any], seconds: float) -> dict[str, Any] | None:
        """Return the answer to ``question``, or None if none came within ``seconds``."""
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.write(json.dumps(question).encode() + b"\n")
        return self.hear(seconds)

    def hear(self, seconds: float) -> dict[str, Any] | None:
        """Return the next object that the other end says, or None; what its login shell says is passed over."""
        deadline = time.monotonic() + seconds
        while True:
            line, end, rest = self._heard.partition(b"\n")
            if end:
                self._heard = rest
                found = json_object(line.decode(errors="replace"))
                if found is not None and found.get("doctor"):
                    return found
            elif not self._read(deadline):
                return None

    def _read(self, deadline: float) -> bool:
        pipe = self._process.stdout
        if pipe is None or not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        more = os.read(pipe.fileno(), 65536)
        self._heard += more
        self._bytes += len(more)
        return bool(more) and self._bytes < _MOST_BYTES

    def ending(self) -> tuple[int | None, str]:
        """Return the exit code, None if the child still runs, and what it has written to stderr last."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_SECONDS_TO_STOP)
        end = os.fstat(self._error).st_size
        text = os.pread(self._error, _TAIL_BYTES, max(0, end - _TAIL_BYTES)).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return self._process.returncode, lines[-1][:300] if lines else ""
