"""How a rank says that it ends: to whoever reads its folder, and to the launcher."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict, field
from pathlib import Path
from typing import NoReturn

from mpiparallel.cluster.flight import format as flight_format
from mpiparallel.cluster.flight.recorder import FlightRecorder
from mpiparallel.cluster.flight.watchdog import Watchdog
from mpiparallel.dataclass import dataclass
from mpiparallel.launch.control import message
from mpiparallel.launch.control.control_client import ControlClient
from mpiparallel.launch.job.lost_output import LostOutput, lost_in_words
from mpiparallel.launch.job.rank_folder import Failure, RankFolder
from mpiparallel.launch.rank.standalone import Standalone

_COMPARED_BYTES = 64 * 1024


@dataclass
class ExitReporter:
    """Says that this rank ends, and how: in its folder, in its recording, and to the launcher if there is one."""

    folder: RankFolder
    size: int
    recorder: FlightRecorder
    client: ControlClient | None = None
    standalone: Standalone | None = None
    word: str = message.COMPLETED
    lost: LostOutput = field(default_factory=LostOutput)
    watchdog: Watchdog | None = None
    is_failing: bool = False

    def leave(self) -> None:
        """Say that the script has ended; threads, exit handlers and MPI may have to end yet."""
        if self.client:
            self.client.say(message.SCRIPT_ENDED)

    def say(self) -> None:
        """Say that the rank ends well, unless it has begun to fail."""
        if self.is_failing:
            return
        self.recorder.change_state(flight_format.ENDED)
        mark = self.folder.preempted if self.word == message.PREEMPTED else self.folder.completed
        with suppress(OSError):
            # On a full disk the control channel alone tells it.
            mark.write_text(f"{time.time()}\n")
        if self.client:
            self.client.say(self.word, lost=asdict(self.lost))
        elif self.standalone and self.lost:
            self.standalone.say(f"warning: rank {self.folder.rank}: {lost_in_words(self.lost, self.folder.path)}")

    def begin_to_fail(self, failure: Failure) -> None:
        """Say that the rank fails, by what is known at once: to put it in words may take long, or come to nothing."""
        self.is_failing = True
        self.recorder.change_state(flight_format.FAILING)
        if self.watchdog:
            self.watchdog.stop()
        if self.client:
            self.client.say(message.FAILING, failure=asdict(failure))

    def fail(self, failure: Failure, last_words: str = "") -> NoReturn:
        """Say that the rank fails, print ``last_words``, and leave without a word to MPI.

        The launcher is told first: files may be on a disk that is full, or hangs.
        """
        self.is_failing = True
        try:
            if self.client:
                self.client.say(message.FAILED, failure=asdict(failure), lost=asdict(self.lost))
            self.recorder.change_state(flight_format.FAILED)
            with suppress(OSError):
                self.folder.write_failure(failure)
            if last_words:
                print_last_words(last_words, self.folder.log)
            if self.standalone:
                said = f"rank {failure.rank} of {self.size} failed: {failure.summary}"
                if not failure.is_exit:
                    said = f"{said}\n{failure.traceback.rstrip()}"
                self.standalone.fail(f"error: {said}\n  its log: {self.folder.log}", failure.exit_code)
        finally:
            os._exit(failure.exit_code)


def print_last_words(words: str, log: Path) -> None:
    """Print ``words`` on stderr, as Python would, and see to it that they are at the end of ``log``.

    They are there whatever the script has made of stderr.
    """
    # What a script has put in the place of a stream may raise anything.
    with suppress(Exception):
        sys.stdout.flush()
    with suppress(Exception):
        sys.stderr.write(words)
        sys.stderr.flush()
    with suppress(OSError):
        content = words.encode(errors="backslashreplace")
        if not _ends_with(log, content):
            # By its name: the number of a closed descriptor may be that of a file of the user's by now.
            with log.open("ab") as stream:
                stream.write(content)


def _ends_with(log: Path, content: bytes) -> bool:
    tail = content[-_COMPARED_BYTES:]
    with log.open("rb") as stream:
        end = stream.seek(0, 2)
        stream.seek(max(0, end - 2 * _COMPARED_BYTES))
        return tail in stream.read()
