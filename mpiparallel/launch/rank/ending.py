"""How a rank says that it ends: to whoever reads its folder, and to the launcher."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import NoReturn

from mpiparallel.flight import format as flight_format
from mpiparallel.flight.recorder import FlightRecorder
from mpiparallel.launch.job.rank_folder import Failure, RankFolder
from mpiparallel.launch.line import message
from mpiparallel.launch.line.caller import Caller
from mpiparallel.launch.rank.unwatched import Unwatched


@dataclass(slots=True)
class Ending:
    """How this rank says that it ends: in its folder, in its recording, and to the launcher if there is one."""

    folder: RankFolder
    size: int
    recorder: FlightRecorder
    caller: Caller | None = None
    unwatched: Unwatched | None = None
    word: str = message.COMPLETED

    def say(self) -> None:
        """Say that the rank ends well."""
        self.recorder.change_state(flight_format.ENDED)
        mark = self.folder.preempted if self.word == message.PREEMPTED else self.folder.completed
        with suppress(OSError):
            # On a full disk the line alone tells it.
            mark.write_text(f"{time.time()}\n")
        if self.caller:
            self.caller.say(self.word)

    def fail(self, failure: Failure) -> NoReturn:
        """Say that the rank fails, and leave without a word to MPI."""
        self.recorder.change_state(flight_format.FAILED)
        with suppress(OSError):
            self.folder.write_failure(failure)
        if self.caller:
            self.caller.say(message.FAILED, failure=asdict(failure))
        if self.unwatched:
            said = f"rank {failure.rank} of {self.size} failed: {failure.summary}"
            if not failure.is_exit:
                said = f"{said}\n{failure.traceback.rstrip()}"
            self.unwatched.fail(f"mpiparallel: error: {said}\n  its log: {self.folder.log}", failure.exit_code)
        os._exit(failure.exit_code)
