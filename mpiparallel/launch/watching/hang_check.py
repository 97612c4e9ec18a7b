"""Finding out from outside that ranks wait for one that has ended."""

from __future__ import annotations

from collections.abc import Sequence

from mpiparallel.errors import LaunchError
from mpiparallel.flight.diagnosis import diagnose
from mpiparallel.flight.process_state import process_state
from mpiparallel.flight.recording import Recording
from mpiparallel.launch.job.rank_folder import RankFolder

_CONFIRMING_LOOKS = 4
# The MPI library may take some seconds to see that a rank is dead.
_LOOKS_AFTER_DEATHS = 12


class HangCheck:
    """Reads the flight recordings of all ranks; what it finds must stand for some looks before it counts.

    The watchdog of each rank does the same; this one is for ranks that let no thread run.
    """

    def __init__(self, folders: Sequence[RankFolder], survives_deaths: bool = False) -> None:
        self._folders = folders
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

    def _recordings(self) -> list[Recording]:
        found = []
        for folder in self._folders:
            try:
                found.append(Recording.load(folder.flight))
            except LaunchError:
                # On another host, or of a rank that has not begun.
                continue
        return found
