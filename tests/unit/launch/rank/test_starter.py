from __future__ import annotations

import pytest

from mpiparallel.errors import ConfigurationError, LaunchError
from mpiparallel.launch.rank.starter import Starter

# What each way of starting was seen to set, as far as it matters.
STEP = {
    "SLURM_JOB_ID": "2",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
    "SLURM_NODEID": "1",
    "SLURM_LOCALID": "1",
    "SLURM_NTASKS": "6",
    "SLURM_STEP_NUM_TASKS": "6",
    "SLURM_STEP_TASKS_PER_NODE": "2(x3)",
}
BATCH = {"SLURM_JOB_ID": "9", "SLURM_PROCID": "0", "SLURM_NTASKS": "6", "SLURM_TASKS_PER_NODE": "2(x3)"}
SHELL = STEP | {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_TASKS_PER_NODE": "1"}
SHELL |= {"SLURM_NODEID": "0", "SLURM_LOCALID": "0"}
OPENMPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_RANK": "1"}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        (OPENMPI, "mpirun of Open MPI"),
        (HYDRA, "mpiexec of MPICH"),
        (STEP | OPENMPI, "mpirun of Open MPI"),
        (STEP | HYDRA, "mpiexec of MPICH"),
        (BATCH | HYDRA, "mpiexec of MPICH"),
        # An older mpiexec names no local ranks; a batch script or half of a step's variables make no step of it.
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, "mpiexec of MPICH"),
        (BATCH | {"PMI_RANK": "1", "PMI_SIZE": "2"}, "mpiexec of MPICH"),
        ({"SLURM_STEP_ID": "0", "PMI_RANK": "1", "PMI_SIZE": "2"}, "mpiexec of MPICH"),
        (STEP | {"PMIX_RANK": "3"}, "srun --mpi=pmix"),
        (STEP | {"PMI_RANK": "3", "PMI_SIZE": "6"}, "srun --mpi=pmi2"),
        (STEP, "srun --mpi=none"),
    ],
)
def test_what_started_the_rank_is_told_from_its_environment(variables, name) -> None:
    assert str(Starter.of(variables)) == name


@pytest.mark.parametrize(
    "variables",
    [
        {},
        BATCH,
        SHELL,
        SHELL | {"PMIX_RANK": "0"},
        SHELL | {"PMI_RANK": "0", "PMI_SIZE": "1"},
        {"RANK_ID": "1", "RANK_SIZE": "2"},
    ],
    ids=["login shell", "batch script", "shell by srun", "by pmix", "by pmi2", "MindSpore's script"],
)
def test_a_process_that_is_to_start_ranks_is_none_itself(variables) -> None:
    assert Starter.of(variables) is None


def test_variables_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="SLURM_STEP_TASKS_PER_NODE"):
        Starter.of(STEP | {"SLURM_NODEID": "7"})


OPENMPI_5, OPENMPI_4 = "Open MPI v5.0.11, package: Open MPI", "Open MPI v4.1.6, package: Debian"
MPICH = "MPICH Version:      5.0.2\nMPICH configure:    --with-device=ch4:ucx,ofi --with-pm=hydra"
MPICH_PMIX = MPICH + " --with-pmix=/usr"


@pytest.mark.parametrize(
    ("starter", "library"),
    [
        (Starter("openmpi"), OPENMPI_5),
        (Starter("mpich"), MPICH),
        (Starter(pmi="pmix"), OPENMPI_5),
        (Starter(pmi="pmix"), MPICH_PMIX),
        (Starter(pmi="pmi2"), MPICH),
        (Starter(pmi="pmi2"), OPENMPI_4),
        (Starter(pmi="none"), "Intel(R) MPI Library 2021.9"),
    ],
)
def test_a_library_that_can_find_its_ranks_is_let_through(starter, library) -> None:
    starter.check(library, 6)


@pytest.mark.parametrize(
    ("starter", "library", "words"),
    [
        (Starter("openmpi"), MPICH, "loads MPICH 5.0.2, .*; start them by the mpiexec of MPICH beside that Python, or"),
        (Starter("mpich"), OPENMPI_5, "loads Open MPI v5.0.11, .*; start them by the mpirun of Open MPI beside"),
        (Starter(pmi="pmix"), MPICH, "srun --mpi=pmix started 6 ranks, .*; start them by srun --mpi=pmi2, or by"),
        (Starter(pmi="pmi2"), OPENMPI_5, "srun --mpi=pmi2 started 6 ranks, .*; start them by srun --mpi=pmix, or by"),
        (Starter(pmi="none"), OPENMPI_5, "srun --mpi=none started 6 ranks, .*; start them by srun --mpi=pmix, or by"),
        (Starter(pmi="none"), MPICH, "srun --mpi=none started 6 ranks, .*; start them by srun --mpi=pmi2, or by"),
    ],
)
def test_a_library_that_would_see_only_itself_is_refused_with_the_mend(starter, library, words) -> None:
    with pytest.raises(LaunchError, match=words):
        starter.check(library, 6)
