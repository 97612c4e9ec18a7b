"""Which start of which job a process belongs to, as the launcher and SLURM have told it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mpiparallel.dataclass import dataclass

JOB_VARIABLE: Final = "MPIPARALLEL_JOB"
"""What tells a job from all others; the launcher sets it, the same for all its restarts."""
ATTEMPT_VARIABLE: Final = "MPIPARALLEL_RESTART_COUNT"
"""How often the launcher has started the job anew."""


@dataclass(frozen=True)
class JobStart:
    """A job by the launcher's and by SLURM's name, empty where there is none, and how often each has started it anew.

    >>> first = JobStart.of({"SLURM_JOB_ID": "7"})
    >>> again = JobStart.of({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1"})
    >>> str(first), again.follows(first), first.follows(first)
    ('SLURM job 7', True, False)
    """

    job: str = ""
    restarts: int = 0
    allocation: str = ""
    requeues: int = 0

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> JobStart:
        """Return what the environment of a process says."""
        cluster, number = variables.get("SLURM_CLUSTER_NAME", ""), variables.get("SLURM_JOB_ID", "")
        return cls(
            variables.get(JOB_VARIABLE, ""),
            _count(variables, ATTEMPT_VARIABLE),
            f"{cluster}/{number}".lstrip("/") if number else "",
            _count(variables, "SLURM_RESTART_COUNT"),
        )

    def follows(self, other: JobStart) -> bool:
        """Return whether it is a later start of the same job: what the earlier one has started has been ended."""
        restarted = bool(self.job) and self.job == other.job and self.restarts > other.restarts
        requeued = bool(self.allocation) and self.allocation == other.allocation and self.requeues > other.requeues
        return restarted or requeued

    def __str__(self) -> str:
        return f"SLURM job {self.allocation}" if self.allocation else ""


def _count(variables: Mapping[str, str], name: str) -> int:
    text = variables.get(name, "")
    return int(text) if text.isdecimal() and text.isascii() else 0
