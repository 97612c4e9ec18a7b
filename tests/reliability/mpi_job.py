"""Jobs of real MPI ranks that save or train until somebody ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tests.conformance import patience
from tests.conformance.mpi_launcher import environment, launcher

ROOT = Path(__file__).parents[2]
_SECONDS_TO_VANISH = 3.0
_NAP = 0.002


class MpiJob:
    """``size`` ranks of a module, each of which puts a file named after its process into ``notes / "ranks"``.

    As a context it leaves no process behind. ``leftover`` counts those that outlived the launcher and had to be killed.
    """

    def __init__(self, interpreter: Path, size: int, module: str, notes: Path, *args: object) -> None:
        self.notes = notes
        self._size = size
        self._ranks = notes / "ranks"
        self._ranks.mkdir(parents=True, exist_ok=True)
        for old in self._ranks.iterdir():
            old.unlink()
        self._output = (notes / "output").open("w+", errors="replace")
        self.leftover = 0
        self._launcher = subprocess.Popen(
            [launcher(interpreter), "-n", str(size), str(interpreter), "-m", module, str(notes), *map(str, args)],
            cwd=notes,
            env=environment(ROOT),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __enter__(self) -> MpiJob:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill_all()
        self._launcher.wait()
        self._output.close()

    @property
    def pids(self) -> list[int]:
        """The processes of the ranks that have begun."""
        return sorted(int(path.name) for path in self._ranks.iterdir() if path.stat().st_size)

    @property
    def running(self) -> bool:
        """Whether the launcher has not ended."""
        return self._launcher.poll() is None

    def wait_for(self, happened: Callable[[], bool]) -> bool:
        """Wait until ``happened``; False if the job ends before. Fails where it hangs."""
        has_happened = False

        def is_over() -> bool:
            nonlocal has_happened
            has_happened = happened()
            return has_happened or not self.running

        patience.wait_until(is_over, self.output)
        return has_happened

    def wait_for_ranks(self) -> bool:
        """Wait until all ranks have begun; False if the job ends before."""
        return self.wait_for(lambda: len(self.pids) == self._size)

    def end(self) -> int:
        """Wait for the job to end by itself and return its exit status; fails where it hangs."""
        patience.wait_until(lambda: not self.running, self.output)
        status, vanishing = self._launcher.returncode, patience.Patience(_SECONDS_TO_VANISH)
        while any(map(self._lives, self.pids)) and vanishing.is_left():
            time.sleep(_NAP)
        self.leftover = sum(map(self._lives, self.pids))
        self.kill_all()
        return status

    def kill_all(self) -> None:
        """End the launcher and all ranks at once, without warning."""
        if self.running:
            self._launcher.kill()
        for pid in self.pids:
            self.kill(pid)

    def kill(self, pid: int) -> None:
        """End a rank without warning, if it is there."""
        if self._lives(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def tell(self, number: int, pids: Iterable[int] = ()) -> None:
        """Send a signal to ranks that are there, or to the launcher, which hands it on."""
        if not pids:
            self._launcher.send_signal(number)
        for pid in filter(self._lives, pids):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _lives(self, pid: int) -> bool:
        state, start = _state_and_start(pid)
        return state not in ("Z", "X", "gone") and start == (self._ranks / str(pid)).read_text()

    def output(self) -> str:
        """What launcher and ranks have printed."""
        self._output.flush()
        return (self._ranks.parent / "output").read_text(errors="replace")


def announce(notes: Path) -> None:
    """Tell the test which process this rank is."""
    (notes / "ranks" / str(os.getpid())).write_text(_state_and_start(os.getpid())[1])


def _state_and_start(pid: int) -> tuple[str, str]:
    """Return the state of a process and when it began: a number may be given to another one later."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "gone", ""
    return fields[0], fields[19]
