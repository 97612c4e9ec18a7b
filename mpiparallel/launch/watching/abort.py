"""Which rank has called ``MPI_Abort``, and with which code, as mpirun or the MPI library says it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mpiparallel.cluster.exit_codes import FAILED, SIGNALLED
from mpiparallel.errors import LaunchError
from mpiparallel.flight.recording import Recording
from mpiparallel.launch.watching.fate import Fate
from mpiparallel.launch.watching.launch import Launch
from mpiparallel.launch.watching.summary import end_of_log

_OPENMPI_CODE = re.compile(r"Proc: \[\[[0-9]+,[0-9]+\],([0-9]+)\]\s+Errorcode: +(-?[0-9]+)")
_OPENMPI_FIRST = re.compile(r'due to process rank ([0-9]+) with PID [0-9]+ on node \S+ calling\s+"abort"')
# Of the rank itself, in its log; other errors that abort are the library's own, and may be those of survivors.
_MPICH_CODE = re.compile(r"^Abort\((-?[0-9]+)\) on node [0-9]+ .*: application called MPI_Abort\(", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Abort:
    """The rank that has called ``MPI_Abort``, None where nobody could tell which, with what ``given`` code."""

    fate: Fate | None
    given: int

    @classmethod
    def of(cls, fates: Sequence[Fate], launch: Launch) -> Abort | None:
        """Return the call that ended the job before the ``launch`` was told to end; None if none did.

        A rank may seem to have ended well, for the call of MPICH returns before the process is ended.
        """
        return cls._told(fates, launch.ended_at, launch.output) or cls._untold(fates, launch)

    @classmethod
    def _told(cls, fates: Sequence[Fate], ended_at: float, output: str) -> Abort | None:
        codes = dict(_OPENMPI_CODE.findall(output))
        first = set(_OPENMPI_FIRST.findall(output))
        for fate in sorted(fates, key=lambda fate: fate.time):
            process = str(fate.process)
            found = codes.get(process) if process in first else next(iter(_mpich_codes(fate)), None)
            if found is not None and fate.time <= ended_at:
                return cls(fate, int(found))
        return None

    @classmethod
    def _untold(cls, fates: Sequence[Fate], launch: Launch) -> Abort | None:
        """Return the call whose words have come to no log: MPICH's mpiexec is silent after it, and after nothing else.

        All others wait for the rank that made it, so that it alone is in no collective; or nobody knows which it was.
        """
        is_silent = 0 < launch.code < SIGNALLED and launch.ended_at == float("inf") and not launch.output.strip()
        if not (is_silent and all(fate.has_died or fate.ended_well for fate in fates)):
            return None
        dead = [fate for fate in fates if fate.has_died]
        outside = [fate for fate in dead or fates if _is_in_no_call(fate)]
        return cls(outside[0] if len(outside) == 1 else None, launch.code)

    @property
    def code(self) -> int:
        """The exit code of the job, never that of success."""
        return self.given & 0xFF or FAILED

    def headline(self, size: int) -> str:
        """Say who of ``size`` ranks has ended the job."""
        if self.fate is None:
            return f"one of {size} ranks ended the job: it called MPI_Abort with code {self.given}"
        return f"rank {self.fate.rank} of {size} ended the job: it called MPI_Abort with code {self.given}"


def _mpich_codes(fate: Fate) -> list[str]:
    return _MPICH_CODE.findall(end_of_log(fate.folder.log))


def _is_in_no_call(fate: Fate) -> bool:
    try:
        return Recording.load(fate.folder.flight).inside is None
    except LaunchError:
        return False
