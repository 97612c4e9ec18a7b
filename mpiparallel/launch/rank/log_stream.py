"""The stdout and stderr of a rank: what the log does not take is dropped, and the script goes on."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

from mpiparallel.launch.job.lost_output import LostOutput

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class LogStream(io.FileIO):
    """Descriptor ``number``, to which all that can be is written; what cannot be is counted in ``lost``.

    A disk without room for a log is no reason to end a training.
    """

    def __init__(self, number: int, name: str, lost: LostOutput) -> None:
        super().__init__(number, "w", closefd=False)
        self.name = name
        self._lost = lost

    def write(self, content: ReadableBuffer) -> int:
        """Write ``content`` as far as it goes, and return its size."""
        size = memoryview(content).nbytes
        try:
            return super().write(content)
        except OSError as error:
            self._lost.add(size, error)
            return size


def print_to_log() -> LostOutput:
    """Make stdout and stderr, whose descriptors are those of the log, such streams; return what is lost from now on."""
    lost = LostOutput()
    sys.stdout = sys.__stdout__ = _text(LogStream(1, "<stdout>", lost))  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _text(LogStream(2, "<stderr>", lost))  # type: ignore[misc]
    return lost


def _text(stream: LogStream) -> io.TextIOWrapper:
    # Line by line, so that nothing said before a crash is lost and rank 0 can be read live.
    return io.TextIOWrapper(io.BufferedWriter(stream), "utf-8", "backslashreplace", line_buffering=True)
