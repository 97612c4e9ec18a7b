"""The process by which a job saves into a folder, as it says there, and whether it lives."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

from mpiparallel.cluster.flight.process_state import birth_of, state_of
from mpiparallel.cluster.flight.recorder import process_space
from mpiparallel.cluster.job_start import JobStart
from mpiparallel.dataclass import dataclass

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_MOST = 1 << 62
_MOST_SECONDS = 1e11


@dataclass(frozen=True)
class Holder:
    """A process and its job.

    ``training`` is what all ranks of a training have in common. ``space`` tells on which host, since which boot, the
    number of the process counts; ``birth`` tells it from others that have had the number. ``since`` is in seconds since
    1970. ``file`` is the number of the file in which it says so, which that of a copy is not.
    """

    training: str
    start: JobStart
    host: str
    space: str
    process: int
    birth: int
    since: float
    file: int = 0

    @classmethod
    def here(cls) -> Holder:
        """Return this process, in a training that is named after it."""
        process, space = os.getpid(), _space()
        birth = birth_of(process) or 0
        training = f"{space}/{process}/{birth}"
        return cls(training, JobStart.of(os.environ), os.uname().nodename, space, process, birth, time.time())

    @classmethod
    def decoded(cls, content: bytes) -> Holder | None:
        """Return the holder that a mark names; None where no process can have written it."""
        try:
            fields = json.loads(content)
            found = cls(**{**fields, "start": JobStart(**fields["start"])})
            return found if found.is_sound else None
        except (ValueError, TypeError, KeyError, RecursionError):
            return None

    def encoded(self) -> bytes:
        """Return what it says."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    @property
    def is_sound(self) -> bool:
        """Whether all that it says is of the right kind."""
        texts = (self.training, self.host, self.space, self.start.job, self.start.allocation)
        numbers = (self.process, self.birth, self.file, self.start.restarts, self.start.requeues)
        are_numbers = all(type(number) is int and 0 <= number < _MOST for number in numbers)
        are_texts = all(isinstance(text, str) and text.isprintable() for text in texts)
        return are_texts and are_numbers and type(self.since) is float and 0.0 <= self.since < _MOST_SECONDS

    def is_same_process(self, other: Holder) -> bool:
        """Return whether both are one process, though maybe in trainings one after the other."""
        return (self.space, self.process, self.birth) == (other.space, other.process, other.birth)

    def lives(self) -> bool | None:
        """Return whether its process lives; None where that cannot be seen from here."""
        if not self.space or self.space != _space():
            return None
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return False
        except OSError:
            # It is another user's.
            pass
        birth = birth_of(self.process)
        # Where processes of others are hidden, its birth is not told.
        return None if birth is None else birth == self.birth and state_of(self.process) != "dead"

    def __str__(self) -> str:
        began = datetime.fromtimestamp(self.since, timezone.utc)
        job = f"{self.start}, " if str(self.start) else ""
        return f"{job}process {self.process} of host {self.host!r}, since {began:%Y-%m-%d %H:%M:%S} UTC"


def _space() -> str:
    try:
        boot = _BOOT.read_text().strip()
    except OSError:
        return ""
    return f"{boot}/{process_space()}"
