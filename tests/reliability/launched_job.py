"""Jobs started by ``mpiparallel run``, and every process that belongs to them, found by a mark in their environment."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import subprocess
import termios
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.conformance import patience

ROOT = Path(__file__).parents[2]
MARK = "MPIPARALLEL_TEST_MARK"
_OUTER = ("OMPI_", "PMIX_", "PMI_", "PRTE_", "SLURM_", "RANK_", "DEVICE_ID", "MPI_LOCAL", "MPIPARALLEL_")
# Promised are 3; where a figure is taken it is the time that it took.
_SECONDS_TO_VANISH = 30.0
_NAP = 0.005
_SHARED = "/dev/shm"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended: its exit code, negative for a signal; when, in seconds since 1970; what it printed and said.

    It prints what rank 0 prints, on stdout; what it says itself is on stderr.

    ``left`` are its processes that were alive when the launcher had ended; ``gone_after`` seconds more there were
    none, or ``remain``.
    """

    code: int
    time: float
    printed: str
    said: str
    left: int
    gone_after: float
    remain: int

    @property
    def first_words(self) -> str:
        """The line that says why the job ended, the last time that it was started."""
        found = re.findall(r"^mpiparallel: error: (.*)$", self.said, re.MULTILINE)
        return found[-1] if found else ""


class LaunchedJob:
    """``mpiparallel run`` with ``size`` ranks of a module, which gets ``notes`` and the other arguments.

    As a context it leaves no process behind. With ``terminal`` it runs in one of its own, which ``strike`` closes.
    ``variables`` are added to its environment. What it prints goes to ``stdout``, and is kept where that is None.
    """

    def __init__(
        self,
        interpreter: Path,
        size: int,
        module: str,
        notes: Path,
        *args: object,
        options: tuple[str, ...] = (),
        terminal: bool = False,
        variables: Mapping[str, str] | None = None,
        stdout: Path | None = None,
    ) -> None:
        self.notes = notes
        self._mark = uuid.uuid4().hex
        self._variables = dict(variables or {})
        self._terminal = pty.openpty() if terminal else ()
        words = ["-m", "mpiparallel", "run", "-n", str(size), "--log-dir", str(notes / "logs"), *options]
        (notes / "output").touch()
        with (stdout or notes / "output").open("wb") as output, (notes / "errors").open("wb") as errors:
            self._launcher = subprocess.Popen(
                [str(interpreter), *words, "-m", module, str(notes), *map(str, args)],
                cwd=notes,
                env=self._environment(),
                stdin=self._terminal[1] if self._terminal else subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                preexec_fn=_in_terminal if terminal else _heed_signals,
            )

    def __enter__(self) -> LaunchedJob:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._launcher.poll() is None:
            self._launcher.kill()
        self._launcher.wait()
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._close_terminal()

    def processes(self) -> list[int]:
        """Return all processes of the job that are alive, launchers and ranks, whoever is their parent by now."""
        return [int(path.name) for path in Path("/proc").glob("[0-9]*") if self._is_marked(path) and _lives(path)]

    def segments(self) -> set[Path]:
        """Return the files of shared memory, those that still have a name, which the processes of the job map."""
        lines = {line for pid in self.processes() for line in _maps(pid) if f" {_SHARED}/" in line}
        paths = {Path(_SHARED + line.partition(f" {_SHARED}")[2]) for line in lines}
        return {path for path in paths if path.exists()}

    def wait_for(self, happened: Callable[[], bool]) -> None:
        """Wait until ``happened``; fails if the job ends before, or hangs."""
        patience.wait_until(lambda: happened() or self._launcher.poll() is not None, self.said)
        assert happened(), f"the job ended too early:\n{self.said()}"

    def strike(self, number: signal.Signals | None) -> float:
        """Send a signal to the launcher alone, None to close its terminal; return when, in seconds since 1970."""
        now = time.time()
        if number is not None:
            self._launcher.send_signal(number)
        else:
            self._close_terminal()
        return now

    def end(self) -> Ended:
        """Wait for the job to end by itself and its processes to vanish; fails where it hangs."""
        code = self.wait()
        now, start, vanishing = time.time(), time.monotonic(), patience.Patience(_SECONDS_TO_VANISH)
        left = remain = len(self.processes())
        while remain and vanishing.is_left():
            time.sleep(_NAP)
            remain = len(self.processes())
        gone_after = time.monotonic() - start if left else 0.0
        return Ended(code, now, self.printed(), self.said(), left, gone_after, remain)

    def wait(self) -> int:
        """Wait for the job to end by itself, and return its exit code; fails where it hangs."""
        patience.wait_until(lambda: self._launcher.poll() is not None, self.said)
        return self._launcher.returncode

    def said(self) -> str:
        """What the launcher has printed on stderr."""
        return (self.notes / "errors").read_text(errors="replace")

    def printed(self) -> str:
        """What the launcher has printed on stdout."""
        return (self.notes / "output").read_text(errors="replace")

    def printed_by(self, rank: int) -> str:
        """What a rank has printed."""
        return (self.notes / "logs" / f"device{rank}" / f"train.log{rank}").read_text(errors="replace")

    def _close_terminal(self) -> None:
        for descriptor in self._terminal:
            os.close(descriptor)
        self._terminal = ()

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OUTER)}
        return kept | self._variables | {"PYTHONPATH": str(ROOT), MARK: self._mark}

    def _is_marked(self, process: Path) -> bool:
        try:
            return f"{MARK}={self._mark}".encode() in (process / "environ").read_bytes().split(b"\0")
        except OSError:
            return False


def _lives(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def _maps(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return []


def _heed_signals() -> None:
    # Tests under nohup, or in the background, would hand down that they are ignored.
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def _in_terminal() -> None:
    _heed_signals()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
