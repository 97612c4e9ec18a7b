"""What mpirun prints, which tells how ranks have ended: kept where no disk can be full, and copied to a log."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import TracebackType

from mpiparallel.checkpoint.files.output_path import check_output
from mpiparallel.errors import LaunchError
from mpiparallel.launch.job.lost_output import LostOutput

_READ_BYTES = 1 << 16


class MpirunOutput:
    """The file in memory that mpirun prints to, and the ``log`` to which that is copied as far as its disk takes it.

    As a context it closes both. Raises LaunchError where the log cannot be written, or is no regular file.
    """

    def __init__(self, log: Path) -> None:
        self._log = _opened(log)
        self.descriptor = _in_memory()
        self._copied = 0
        self._refusal: OSError | None = None

    def __enter__(self) -> MpirunOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self.descriptor)
        os.close(self._log)

    def copy(self) -> None:
        """Copy to the log what was printed since; what that does not take now is tried again."""
        try:
            # At offsets of its own: that of the file is mpirun's.
            while content := os.pread(self.descriptor, _READ_BYTES, self._copied):
                self._copied += os.write(self._log, content)
        except OSError as error:
            self._refusal = self._refusal or error

    @property
    def lost(self) -> LostOutput:
        """What the log has not taken."""
        loss = LostOutput()
        missing = os.fstat(self.descriptor).st_size - self._copied
        if missing:
            loss.add(missing, self._refusal)
        return loss

    def text(self) -> str:
        """Return all that was printed."""
        size = os.fstat(self.descriptor).st_size
        return os.pread(self.descriptor, size, 0).decode(errors="replace")


def _opened(log: Path) -> int:
    try:
        check_output(log)
        return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise LaunchError(f"{log}: {error.strerror}; give a --log-dir that can be written") from error


def _in_memory() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("mpirun", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
