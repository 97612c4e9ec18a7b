"""Which rank has called ``MPI_Abort``, and with which code, as mpirun or the MPI library says it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mpiparallel.cluster.exit_codes import FAILED, SIGNALLED
from mpiparallel.dataclass import dataclass
from mpiparallel.launch.watching.mpirun_result import MpirunResult
from mpiparallel.launch.watching.rank_outcome import RankOutcome
from mpiparallel.launch.watching.summary import end_of_log

_OPENMPI_CODE = re.compile(r"Proc: \[\[[0-9]+,[0-9]+\],([0-9]+)\]\s+Errorcode: +(-?[0-9]+)")
_OPENMPI_FIRST = re.compile(r'due to process rank ([0-9]+) with PID [0-9]+ on node \S+ calling\s+"abort"')
# Of the rank itself, in its log; other errors that abort are the library's own, and may be those of survivors.
_MPICH_CODE = re.compile(r"^Abort\((-?[0-9]+)\) on node [0-9]+ .*: application called MPI_Abort\(", re.MULTILINE)


@dataclass(frozen=True)
class Abort:
    """The rank that has called ``MPI_Abort``, or None where that is not known, and the ``given`` code."""

    outcome: RankOutcome | None
    given: int

    @classmethod
    def of(cls, outcomes: Sequence[RankOutcome], result: MpirunResult) -> Abort | None:
        """Return the call that ended the job before the ``result`` was told to end; None if none did.

        A rank may seem to have ended well, for the call of MPICH returns before the process is ended.
        """
        return cls._told(outcomes, result.ended_at, result.output) or cls._untold(outcomes, result)

    @classmethod
    def _told(cls, outcomes: Sequence[RankOutcome], ended_at: float, output: str) -> Abort | None:
        codes = dict(_OPENMPI_CODE.findall(output))
        first = set(_OPENMPI_FIRST.findall(output))
        for outcome in sorted(outcomes, key=lambda outcome: outcome.time):
            process = str(outcome.process)
            found = codes.get(process) if process in first else next(iter(_mpich_codes(outcome)), None)
            if found is not None and outcome.time <= ended_at:
                return cls(outcome, int(found))
        return None

    @classmethod
    def _untold(cls, outcomes: Sequence[RankOutcome], result: MpirunResult) -> Abort | None:
        """Return the call whose words have come to no log: MPICH's mpiexec is silent after it, and after nothing else.

        Nothing tells which rank it was: its call returns, so it may wait with the others when all are ended.
        """
        is_silent = 0 < result.code < SIGNALLED and result.ended_at == float("inf") and not result.output.strip()
        is_untold = is_silent and all(outcome.has_died or outcome.ended_well for outcome in outcomes)
        return cls(None, result.code) if is_untold else None

    @property
    def code(self) -> int:
        """The exit code of the job, never that of success."""
        return self.given & 0xFF or FAILED

    def headline(self, size: int) -> str:
        """Say who of ``size`` ranks has ended the job."""
        if self.outcome is None:
            called = f"it called MPI_Abort with code {self.given}; no log has the words of MPI that say which one"
            return f"one of {size} ranks ended the job: {called}"
        return f"rank {self.outcome.rank} of {size} ended the job: it called MPI_Abort with code {self.given}"


def _mpich_codes(outcome: RankOutcome) -> list[str]:
    return _MPICH_CODE.findall(end_of_log(outcome.folder.log))
