"""The mark by which a job keeps a folder for itself while it saves there; one that has died keeps nothing.

The mark is a file that its process touches every few seconds. On the host of that process the system says whether it
lives. Elsewhere it counts as dead once its mark has not been touched for a while, by the clock of the file server. So
no lock is asked for, which not every file system has, or keeps beyond one host.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from mpiparallel.checkpoint.files.durable_file import make_folder, replacing, write_at
from mpiparallel.checkpoint.files.folder_holder import Holder
from mpiparallel.checkpoint.files.regular_file import open_regular
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import CheckpointError

MARK: Final = ".saved-by-job"
"""The name of the mark in a folder."""
SECONDS_BETWEEN_TOUCHES: Final = 5.0
SECONDS_TO_LIVE: Final = 30.0
"""How long a process of another host counts as living that does not touch its mark."""

_NAP_SECONDS = 0.2
_MOST_BYTES = 4096
_MODE = 0o666


@dataclass(frozen=True)
class _Mark:
    """What is in a mark: nothing where others may not read it, or while it is being written."""

    file: int
    content: bytes
    touched: int

    @classmethod
    def at(cls, path: Path) -> _Mark | None:
        """Return the mark, None where there is none. Raises CheckpointError where something else has its name."""
        try:
            # Opening is what makes a client of a file server ask for the times of a file anew.
            descriptor = open_regular(path)
        except FileNotFoundError:
            return None
        except PermissionError:
            found = path.stat()
            return cls(found.st_ino, b"", found.st_mtime_ns)
        try:
            found = os.fstat(descriptor)
            return cls(found.st_ino, os.pread(descriptor, _MOST_BYTES, 0), found.st_mtime_ns)
        finally:
            os.close(descriptor)


class FolderClaim:
    """A folder that is kept for the job of ``holder``, this process, from ``hold`` to ``release``.

    A thread touches the mark meanwhile.
    """

    def __init__(self, folder: Path, holder: Holder) -> None:
        self._folder = folder
        self._path = folder / MARK
        self._holder = holder
        self._changing = threading.Lock()
        self._released = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self) -> None:
        """Take the folder if no other job has it, or see that it is still this one's.

        Raises CheckpointError, which names the other job, where one that lives has it; OSError where the mark can be
        neither read nor written.
        """
        make_folder(self._folder)
        self._see_to_it()
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep_touching, name=f"mark of {self._folder}", daemon=True)
            self._thread.start()

    def release(self) -> None:
        """Give the folder back; what another has meanwhile stays as it is."""
        with self._changing:
            self._released.set()
            with suppress(OSError, CheckpointError):
                mark = _Mark.at(self._path)
                if mark is not None and self._is_own(Holder.decoded(mark.content)):
                    self._path.unlink()

    def _keep_touching(self) -> None:
        with suppress(CheckpointError):
            while not self._released.wait(SECONDS_BETWEEN_TOUCHES):
                # A file server may come back.
                with suppress(OSError):
                    self._see_to_it()

    def _see_to_it(self) -> None:
        with self._changing:
            while not self._released.is_set() and not self._is_held():
                pass

    def _is_held(self) -> bool:
        """Do one step towards the mark of this job; return whether it is there."""
        mark = _Mark.at(self._path)
        if mark is None:
            return self._made()
        holder = Holder.decoded(mark.content)
        if self._is_own(holder):
            os.utime(self._path)
            return True
        if not self._is_of_own_job(holder) and not self._is_free(mark, holder):
            raise CheckpointError(self._refusal(holder))
        self._take_over(mark)
        return False

    def _made(self) -> bool:
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
        except FileExistsError:
            return False
        try:
            self._write(descriptor)
        except OSError:
            self._path.unlink()
            raise
        finally:
            os.close(descriptor)
        return True

    def _write(self, descriptor: int) -> None:
        holder = replace(self._holder, file=os.fstat(descriptor).st_ino)
        write_at(descriptor, memoryview(holder.encoded()), 0)

    def _is_own(self, holder: Holder | None) -> bool:
        return holder is not None and holder.is_same_process(self._holder) and holder.training == self._holder.training

    def _is_of_own_job(self, holder: Holder | None) -> bool:
        if holder is None:
            return False
        is_own = holder.training == self._holder.training or holder.is_same_process(self._holder)
        return is_own or self._holder.start.follows(holder.start)

    def _is_free(self, mark: _Mark, holder: Holder | None) -> bool:
        """Return whether the job of a mark is over, as far as this can be known, or whether the mark has changed."""
        # Of a copy nobody knows whether it is one of a mark that lives elsewhere.
        lives = holder.lives() if holder is not None and holder.file == mark.file else None
        if lives is not None:
            return not lives
        silent = self._now() - mark.touched
        seen_until = time.monotonic() + SECONDS_TO_LIVE
        while silent < SECONDS_TO_LIVE * 1e9 and time.monotonic() < seen_until:
            time.sleep(_NAP_SECONDS)
            now = _Mark.at(self._path)
            if now is None or now.content != mark.content or now.file != mark.file:
                return True
            if now.touched != mark.touched:
                return False
        return True

    def _now(self) -> int:
        """Return the time in nanoseconds by the clock that stamps the files of the folder."""
        with tempfile.TemporaryFile(dir=self._folder) as file:
            return os.fstat(file.fileno()).st_mtime_ns

    def _take_over(self, mark: _Mark) -> None:
        """Put the mark of this job in the place of one that has not changed since it was read.

        Whoever may replace a mark holds a file that is named after it, so that one of several does.
        """
        permit = self._path.with_name(f"{MARK}-{mark.file}-{hashlib.blake2b(mark.content, digest_size=8).hexdigest()}")
        try:
            os.close(os.open(permit, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE))
        except FileExistsError:
            self._wait_for(permit)
            return
        try:
            if _Mark.at(self._path) == mark:
                with replacing(self._path) as descriptor:
                    self._write(descriptor)
        finally:
            permit.unlink(missing_ok=True)

    def _wait_for(self, permit: Path) -> None:
        """Let another process replace a mark; where it has died meanwhile, its permit goes."""
        with suppress(FileNotFoundError):
            if self._now() - permit.stat().st_mtime_ns > SECONDS_TO_LIVE * 1e9:
                permit.unlink()
        time.sleep(_NAP_SECONDS)

    def _refusal(self, holder: Holder | None) -> str:
        who = "its mark there cannot be read" if holder is None else str(holder)
        return (
            f"{self._folder}: another job saves here ({who}); give this one another folder, or start it when that has "
            "ended"
        )
