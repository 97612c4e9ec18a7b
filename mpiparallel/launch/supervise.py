"""Starting mpirun and watching it to the end of the job."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from mpiparallel.errors import LaunchError
from mpiparallel.launch.command import Command
from mpiparallel.launch.outcome import Launch, Outcome, judge
from mpiparallel.launch.parent_death import die_with_parent
from mpiparallel.launch.rank_folder import RankFolder

_POLL_SECONDS = 0.05
_TIMEOUT_GRACE_SECONDS = 5.0
# mpirun ends the other ranks when one has failed; Open MPI's was seen not to when all fail at one moment.
_FAILURE_GRACE_SECONDS = 10.0
_FAILURE_POLL_SECONDS = 0.5
_SIGNAL_GRACE_SECONDS = 30.0
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PASSED_SIGNALS = (signal.SIGUSR1,)


def supervise(command: Command, ranks: int, log_dir: Path, timeout: float | None) -> Outcome:
    """Run ``command`` to its end and return how the job of ``ranks`` ranks ended.

    What rank 0 prints appears on stdout as it comes. SIGINT and SIGTERM end the job, SIGUSR1 is passed on to the ranks.
    After ``timeout`` seconds the job is stopped.

    Raises
    ------
    LaunchError
        ``log_dir`` cannot be written, or another job is using it.
    """
    folders = [RankFolder(log_dir, rank) for rank in range(ranks)]
    with _reserved(log_dir):
        for folder in folders:
            folder.clear()
        _write_hostfile(command)
        output = log_dir / "launcher.log"
        with output.open("wb") as stream:
            watch = _Watch(_start(command, stream.fileno()), folders, timeout)
            watch.to_end()
        launch = Launch(
            watch.process.returncode,
            output.read_text(errors="replace"),
            timeout if watch.timed_out else None,
            watch.signal_number,
            watch.ended_at,
        )
        return judge(folders, launch)


@contextmanager
def _reserved(log_dir: Path) -> Iterator[None]:
    """Keep ``log_dir`` for this job: a second one would overwrite the records that tell how this one ended."""
    try:
        log_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(log_dir, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise LaunchError(f"--log-dir {log_dir}: {error.strerror}; give a folder that can be written") from error
    try:
        _lock(descriptor, log_dir)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, log_dir: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise LaunchError(f"--log-dir {log_dir}: another job is writing there; give each job its own") from error


def _write_hostfile(command: Command) -> None:
    if command.hostfile is None:
        return
    path, text = command.hostfile
    try:
        path.write_text(text)
    except OSError as error:
        raise LaunchError(f"{path}: {error.strerror}; give a --log-dir that can be written") from error


def _start(command: Command, output: int) -> subprocess.Popen[bytes]:
    # Its own process group, so that Ctrl-C reaches mpirun once, through this process.
    return subprocess.Popen(
        command.argv,
        env=dict(command.environment),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        preexec_fn=die_with_parent,
    )


class _Tail:
    """Shows a growing file on stdout."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def show(self) -> None:
        """Write what was added to the file since the last call."""
        with suppress(FileNotFoundError), self._path.open("rb") as stream:
            stream.seek(self._offset)
            content = stream.read()
            self._offset += len(content)
            # As bytes: a terminal that cannot show a character must not end the job.
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()


class _Watch:
    """Waits for mpirun, and ends it at a signal, at the timeout, or when it goes on long after a rank has failed."""

    def __init__(self, process: subprocess.Popen[bytes], folders: Sequence[RankFolder], timeout: float | None) -> None:
        self.process = process
        self.timed_out = False
        self.signal_number: int | None = None
        self.ended_at = float("inf")
        self._folders = folders
        self._tail = _Tail(folders[0].log)
        self._failed_at: float | None = None
        self._next_look = 0.0
        self._is_ending = False
        self._deadline = time.monotonic() + (float("inf") if timeout is None else timeout)

    def to_end(self) -> None:
        """Return when mpirun has ended; nothing of its process group is left then."""
        handlers = {number: signal.signal(number, self._on_signal) for number in (*_ENDING_SIGNALS, *_PASSED_SIGNALS)}
        try:
            while self.process.poll() is None:
                self._tail.show()
                if time.monotonic() > self._deadline:
                    self._on_deadline()
                elif self._goes_on_after_failure():
                    self._end(signal.SIGTERM, _TIMEOUT_GRACE_SECONDS)
                time.sleep(_POLL_SECONDS)
        finally:
            self._kill()
            self.process.wait()
            for number, handler in handlers.items():
                signal.signal(number, handler)
        self._tail.show()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if number in _PASSED_SIGNALS:
            self.process.send_signal(number)
        elif self.signal_number is None:
            self.signal_number = number
            self._end(number, _SIGNAL_GRACE_SECONDS)
        else:
            self._kill()

    def _goes_on_after_failure(self) -> bool:
        """Return whether a rank has failed so long ago that mpirun should have ended."""
        now = time.monotonic()
        if self._is_ending or now < self._next_look:
            return False
        self._next_look = now + _FAILURE_POLL_SECONDS
        if self._failed_at is None and any(folder.failure.exists() for folder in self._folders):
            self._failed_at = now
        return self._failed_at is not None and now > self._failed_at + _FAILURE_GRACE_SECONDS

    def _on_deadline(self) -> None:
        if self._is_ending:
            self._kill()
        else:
            self.timed_out = True
            self._end(signal.SIGTERM, _TIMEOUT_GRACE_SECONDS)

    def _end(self, number: int, grace: float) -> None:
        self._is_ending = True
        self.ended_at = min(self.ended_at, time.time())
        self._deadline = time.monotonic() + grace
        self.process.send_signal(number)

    def _kill(self) -> None:
        # The group may be gone already; the ranks, in groups of their own, die with their parent.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
