"""What a rank leaves behind: its folder ``device<rank>`` with its log, its environment and how it ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mpiparallel.cluster.flight.recording import Recording
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import LaunchError

ATTEMPT_VARIABLE = "MPIPARALLEL_RESTART_COUNT"
"""The environment variable that counts the starts of a job before this one."""

_LONGEST_TEXT = 64 * 1024
_END_OF_TIME = 1e11
_LONGEST_SUMMARY = 1000
_LONGEST_ACTION = 200
_LARGEST_STATUS = 0xFFFF
_EXIT = "SystemExit"


@dataclass(frozen=True)
class Failure:
    """How a rank failed: seconds since 1970 by its host's clock, one line, the traceback, and its exit code.

    If many ranks raise an error because of one of them, ``origin`` is that rank. ``action`` is what the rank was doing
    in a stage of a pipeline.
    """

    rank: int
    time: float
    exception: str
    traceback: str
    exit_code: int
    origin: int | None = None
    action: str = ""

    @classmethod
    def parsed(cls, rank: int, fields: Mapping[str, Any]) -> Failure | None:
        """Return the failure of ``rank`` that ``fields`` describe, its texts cut to 64 KiB, or None if they do not."""
        moment, code = fields.get("time"), fields.get("exit_code")
        texts = [fields.get("exception"), fields.get("traceback")]
        if not (isinstance(moment, int | float) and 0 <= moment < _END_OF_TIME):
            return None
        if not (isinstance(code, int) and not isinstance(code, bool) and 0 < code < 256):
            return None
        if not all(isinstance(text, str) for text in texts):
            return None
        exception, traceback = (str(text)[-_LONGEST_TEXT:] for text in texts)
        origin = fields.get("origin")
        action = fields.get("action")
        told = action[:_LONGEST_ACTION] if isinstance(action, str) else ""
        return cls(rank, float(moment), exception, traceback, code, origin if isinstance(origin, int) else None, told)

    @property
    def summary(self) -> str:
        """The first line of the exception: its class and its message; of ``sys.exit``, what it was given."""
        first = (self.exception.strip().splitlines() or [f"exit code {self.exit_code}"])[0][:_LONGEST_SUMMARY]
        if not self.is_exit:
            return first
        given = first.removeprefix(_EXIT).removeprefix(": ")
        return f"it left with exit code {self.exit_code}" if not given or given.isdecimal() else given

    @property
    def is_exit(self) -> bool:
        """Whether the script left by ``sys.exit``, as argparse does, which prints what it has to say, no traceback."""
        return self.exception.startswith(_EXIT)


@dataclass(frozen=True)
class RankFolder:
    """The folder of one rank under the log directory, laid out as by the tutorial's ``run.sh``.

    ``train.log<rank>`` is all the rank printed, ``env<rank>.log`` its environment, for its user alone, without secrets.
    A rank that ended well leaves ``completed``. One that was told to end, and had committed, leaves ``preempted``. One
    that ended by an exception or a non-zero exit leaves ``failure.json``. ``wait_status`` is there where its process
    did not end well. ``stack<rank>.log`` says where it was when it was told to end, ``flight<rank>.bin`` what it did
    last. Those of earlier attempts of a restarted job have ``.attempt0``, ``.attempt1`` after their names.
    """

    log_dir: Path
    rank: int

    @property
    def path(self) -> Path:
        """The folder itself."""
        return self.log_dir / f"device{self.rank}"

    @property
    def log(self) -> Path:
        """The rank's stdout and stderr."""
        return self.path / f"train.log{self.rank}"

    @property
    def environment(self) -> Path:
        """The rank's environment variables, one a line."""
        return self.path / f"env{self.rank}.log"

    @property
    def stack(self) -> Path:
        """The rank's stacks at the moment it was told to end."""
        return self.path / f"stack{self.rank}.log"

    @property
    def flight(self) -> Path:
        """The rank's flight recording."""
        return self.path / f"flight{self.rank}.bin"

    @property
    def completed(self) -> Path:
        """The mark of a rank that ended well."""
        return self.path / "completed"

    @property
    def preempted(self) -> Path:
        """The mark of a rank that was told to end, and ended after a commit."""
        return self.path / "preempted"

    @property
    def failure(self) -> Path:
        """The record of a rank that failed."""
        return self.path / "failure.json"

    @property
    def wait_status(self) -> Path:
        """When the process of the rank ended, and how, as wait(2) tells it to the parent, if it did not end well."""
        return self.path / "wait_status"

    def last_action(self) -> str:
        """Return what the rank was doing last in a stage of a pipeline, ``""`` where that is not known here."""
        try:
            return Recording.load(self.flight).action
        except LaunchError:
            return ""

    def begin(self, attempt: int) -> None:
        """Make room for attempt number ``attempt`` (from 0) of a job.

        What the attempt before left gets ``.attempt<number>`` after its name; the first attempt removes all that
        earlier jobs left. Other files in the folder stay.
        """
        if not attempt:
            self.clear()
            return
        for path in self._files():
            kept = path.with_name(f"{path.name}.attempt{attempt - 1}")
            # The launcher has done it already where it shares this folder with the rank.
            if path.exists():
                path.replace(kept)

    def clear(self) -> None:
        """Remove what an earlier job left in the folder; other files in it stay."""
        for path in self._files():
            path.unlink(missing_ok=True)
            for kept in path.parent.glob(f"{path.name}.attempt[0-9]*"):
                kept.unlink(missing_ok=True)

    def _files(self) -> Iterator[Path]:
        yield from (self.log, self.environment, self.stack, self.flight)
        yield from (self.completed, self.preempted, self.failure, self.wait_status)

    def write_failure(self, failure: Failure) -> None:
        """Write ``failure``; a reader sees all of it or nothing."""
        partial = self.failure.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(failure), indent=2) + "\n", encoding="utf-8")
        partial.replace(self.failure)

    def read_wait_status(self) -> tuple[float, int] | None:
        """Return when the rank was seen to end, and its status of wait(2); None where nobody wrote it down."""
        try:
            moment, status = self.wait_status.read_text(encoding="ascii", errors="replace").split()
            found = float(moment), int(status)
        except (OSError, ValueError):
            return None
        return found if 0 <= found[0] < _END_OF_TIME and 0 <= found[1] <= _LARGEST_STATUS else None

    def read_failure(self) -> Failure | None:
        """Return the failure of the rank, or None if it left none."""
        try:
            fields = json.loads(self.failure.read_text(encoding="utf-8", errors="replace"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError):
            fields = None
        parsed = Failure.parsed(self.rank, fields) if isinstance(fields, dict) else None
        return parsed or self._unreadable()

    def _unreadable(self) -> Failure:
        text = f"{self.failure} is there, but cannot be read"
        try:
            moment = self.failure.stat().st_mtime
        except OSError:
            moment = 0.0
        return Failure(self.rank, moment, text, text, 1)
