"""What has started this process as one rank of several, and which MPI libraries its ranks can find each other by."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from mpiparallel.cluster.environment import Environment
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import LaunchError
from mpiparallel.launch.job.installation import shortened, vendor_of

_MPIRUN = {"openmpi": "mpirun of Open MPI", "mpich": "mpiexec of MPICH"}
_PMI = {"openmpi": "pmix", "mpich": "pmi2"}


@dataclass(frozen=True)
class Starter:
    """``srun --mpi=<pmi>``, or the mpirun of ``vendor``.

    ``pmi`` is how srun's tasks can find each other: ``pmix``, ``pmi2``, or ``none`` where srun offers neither; empty
    under mpirun.

    Examples
    --------
    >>> str(Starter.of({"OMPI_COMM_WORLD_RANK": "0"}))
    'mpirun of Open MPI'
    >>> Starter.of({"PATH": "/bin"}) is None
    True
    """

    vendor: str = ""
    pmi: str = ""

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Starter | None:
        """Return what has started the rank whose environment is ``variables``, None where this is no rank.

        A single task of srun is none: it is the shell of someone who starts ranks from there. A batch script is none.
        Raises ConfigurationError where the variables contradict each other.
        """
        if "OMPI_COMM_WORLD_RANK" in variables:
            return cls("openmpi")
        is_step = "SLURM_STEP_ID" in variables and "SLURM_PROCID" in variables
        # In an allocation MPICH's mpiexec starts its proxies by srun, whose step is not that of the ranks.
        if "PMI_RANK" in variables and ("MPI_LOCALRANKID" in variables or not is_step):
            return cls("mpich")
        if not is_step or Environment.read(variables).size == 1:
            return None
        pmi = "pmix" if "PMIX_RANK" in variables else "pmi2" if "PMI_RANK" in variables else "none"
        return cls(pmi=pmi)

    def __str__(self) -> str:
        """Return it as users call it."""
        return f"srun --mpi={self.pmi}" if self.pmi else _MPIRUN[self.vendor]

    def check(self, library: str, ranks: int) -> None:
        """Raise LaunchError if an MPI library that describes itself by ``library`` cannot run its ``ranks`` ranks.

        >>> Starter(pmi="pmi2").check("Open MPI v5.0.11", 8)
        Traceback (most recent call last):
        ...
        mpiparallel.errors.LaunchError: srun --mpi=pmi2 started 8 ranks, but ... loads Open MPI v5.0.11, ...
        """
        vendor = vendor_of(library)
        if vendor is None or self._serves(vendor, library):
            return
        mends = [f"srun --mpi={_PMI[vendor]}"] if self.pmi else [f"the {_MPIRUN[vendor]} beside that Python"]
        mends.append("mpiparallel run -n without it")
        raise LaunchError(
            f"{self} started {ranks} ranks, but mpi4py of {sys.executable} loads {shortened(library)}, which would not "
            f"find the others; start them by {', or by '.join(mends)}"
        )

    def _serves(self, vendor: str, library: str) -> bool:
        if not self.pmi:
            return vendor == self.vendor
        if self.pmi == "pmix":
            # MPICH says in its text how it was built; most builds know no PMIx.
            return vendor == "openmpi" or "pmix" in library.lower()
        # Open MPI knew PMI-2 until version 4.
        return self.pmi == "pmi2" and (vendor == "mpich" or "Open MPI v4" in library)
