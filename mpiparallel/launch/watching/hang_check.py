"""Finding out from outside that ranks wait for one that has ended."""

from __future__ import annotations

from collections.abc import Sequence

from mpiparallel.cluster.flight.hang_diagnosis import diagnose
from mpiparallel.cluster.flight.process_state import process_state
from mpiparallel.cluster.flight.recording import Recording
from mpiparallel.errors import LaunchError
from mpiparallel.launch.job.rank_folder import RankFolder

_CONFIRMING_LOOKS = 4
# The MPI library may take some seconds to see that a rank is dead.
_LOOKS_AFTER_DEATHS = 12
# The watchdogs of the ranks come first.
_GRACE_SECONDS = 5.0
# How often the files are read within one limit of a watchdog; there may be many files.
_LOOKS_PER_LIMIT = 20


class HangCheck:
    """Reads the flight recordings of all ranks; what it finds must stand for some looks before it counts.

    The watchdog of each rank, which has ``seconds``, does the same. This one is for ranks that let no thread run, as
    Python does while it starts MPI.
    """

    def __init__(
        self, folders: Sequence[RankFolder], seconds: float | None = None, survives_deaths: bool = False
    ) -> None:
        self._folders = folders
        self._seconds = seconds
        self._inside: dict[int, tuple[float, float]] = {}
        self._next_look = 0.0
        self._needed = _LOOKS_AFTER_DEATHS if survives_deaths else _CONFIRMING_LOOKS
        self._found: str | None = None
        self._looks = 0

    def look(self) -> str | None:
        """Return who waits for a rank that has ended, once that is certain."""
        found = diagnose(self._recordings(), process_state)
        proven = found.sentence if found and found.is_proven else None
        self._looks = self._looks + 1 if proven and proven == self._found else 1
        self._found = proven
        return proven if self._looks >= self._needed else None

    def look_for_overdue(self, now: float) -> str | None:
        """Return who waits for whom, once a rank has been in one call for longer than its watchdog lets it be.

        Seconds are those of ``now``, for the clocks of hosts differ.
        """
        if self._seconds is None or now < self._next_look:
            return None
        self._next_look = now + self._seconds / _LOOKS_PER_LIMIT
        recordings = self._recordings()
        calls = {one.rank: one.inside.entered for one in recordings if one.inside is not None}
        former, self._inside = self._inside, {}
        for rank, entered in calls.items():
            told = former.get(rank)
            self._inside[rank] = told if told and told[0] == entered else (entered, now)
        if all(now <= since + self._seconds + _GRACE_SECONDS for _, since in self._inside.values()):
            return None
        found = diagnose(recordings, process_state)
        return found.sentence if found else None

    def _recordings(self) -> list[Recording]:
        found = []
        for folder in self._folders:
            try:
                found.append(Recording.load(folder.flight))
            except LaunchError:
                # On another host, or of a rank that has not begun.
                continue
        return found
