"""The environment of a rank: what its launcher says about it before MPI is started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from mpiparallel.cluster.node_list import task_counts
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError, RankTableError

_LAUNCHED: Final = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")


def is_launched(variables: Mapping[str, str]) -> bool:
    """Return whether an MPI launcher has given the process with these variables a rank.

    >>> is_launched({"PMI_RANK": "0"}), is_launched({"RANK_ID": "0"})
    (True, False)
    """
    return any(name in variables for name in _LAUNCHED)


@dataclass(frozen=True)
class Environment:
    """One rank: its number among ``size``, its number among the ``local_size`` ranks of its host, and its device.

    Read from the first of these that names a rank. Open MPI sets ``OMPI_COMM_WORLD_*``; PMIx sets ``PMIX_RANK``, with
    srun's sizes; MPICH sets ``PMI_*`` and ``MPI_LOCAL*``. SLURM's srun sets ``SLURM_*`` for a job step; a batch script
    alone is no rank. MindSpore's scripts set ``RANK_ID`` and ``RANK_SIZE``; their ranks are taken to be on one host.
    Otherwise it is rank 0 of 1. SLURM comes after MPI because mpirun inside an allocation hands its own SLURM numbers
    down to every rank. The device is ``DEVICE_ID``, or the local rank.

    Raises
    ------
    ConfigurationError
        A variable is missing, or is not a number that fits the others.

    Examples
    --------
    >>> Environment.read({"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"})
    Environment(rank=5, size=8, local_rank=1, local_size=4, device_id=1)
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    device_id: int

    def __post_init__(self) -> None:
        if not (0 <= self.rank < self.size and 0 <= self.local_rank < self.local_size <= self.size):
            raise ConfigurationError(
                f"the environment says rank {self.rank} of {self.size}, local rank {self.local_rank} of "
                f"{self.local_size}, which cannot be; start the job with one launcher, or unset its variables"
            )

    @classmethod
    def read(cls, variables: Mapping[str, str] | None = None) -> Environment:
        """Return the environment that ``variables`` describe; they are those of the process if none are given."""
        known = os.environ if variables is None else variables
        rank, size, local_rank, local_size = _ranks(known)
        device_id = _number(known, "DEVICE_ID") if "DEVICE_ID" in known else local_rank
        return cls(rank, size, local_rank, local_size, device_id)


def _ranks(variables: Mapping[str, str]) -> tuple[int, int, int, int]:
    if "OMPI_COMM_WORLD_RANK" in variables:
        names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
        rank, size, local_rank, local_size = (_number(variables, f"OMPI_COMM_WORLD_{name}") for name in names)
        return rank, size, local_rank, local_size
    if "PMIX_RANK" in variables:
        return _number(variables, "PMIX_RANK"), _step_size(variables), *_step_local(variables)
    if "PMI_RANK" in variables:
        rank, size = _number(variables, "PMI_RANK"), _number(variables, "PMI_SIZE")
        if "MPI_LOCALRANKID" in variables:
            return rank, size, _number(variables, "MPI_LOCALRANKID"), _number(variables, "MPI_LOCALNRANKS")
        return rank, size, *_step_local(variables)
    if "SLURM_PROCID" in variables and "SLURM_STEP_ID" in variables:
        return _number(variables, "SLURM_PROCID"), _step_size(variables), *_step_local(variables)
    if "RANK_ID" in variables:
        rank, size = _number(variables, "RANK_ID"), _number(variables, "RANK_SIZE")
        return rank, size, rank, size
    return 0, 1, 0, 1


def _step_size(variables: Mapping[str, str]) -> int:
    return _number(variables, "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in variables else "SLURM_NTASKS")


def _step_local(variables: Mapping[str, str]) -> tuple[int, int]:
    step = "SLURM_STEP_TASKS_PER_NODE" in variables
    name = "SLURM_STEP_TASKS_PER_NODE" if step else "SLURM_TASKS_PER_NODE"
    node = _number(variables, "SLURM_NODEID")
    counts = _tasks_per_node(variables, name)
    if node >= len(counts):
        raise ConfigurationError(f'{name}="{variables[name]}" has no node {node}; start the job with srun anew')
    return _number(variables, "SLURM_LOCALID"), counts[node]


def _tasks_per_node(variables: Mapping[str, str], name: str) -> tuple[int, ...]:
    try:
        return task_counts(_value(variables, name))
    except RankTableError as error:
        raise ConfigurationError(
            f'{name}="{variables[name][:60]}" is no list of counts ({error}); start the job anew'
        ) from error


def _value(variables: Mapping[str, str], name: str) -> str:
    if name not in variables:
        raise ConfigurationError(f"{name} is not set, but other variables say this is a rank; set it, or unset those")
    return variables[name]


def _number(variables: Mapping[str, str], name: str) -> int:
    value = _value(variables, name)
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise ConfigurationError(f'{name}="{value}" is not a whole number from 0; set it to one, or unset it')
    return int(value)
