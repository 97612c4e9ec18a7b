from __future__ import annotations

import pytest

from mpiparallel.cluster.environment import Environment
from mpiparallel.errors import ConfigurationError

OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
    "PMIX_RANK": "5",
}
MPICH = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
# What srun gives task 3 of 4 on its second node of two.
SRUN = {
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_NODEID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_TASKS_PER_NODE": "3,1",
}
# What mpirun inside an allocation hands down: the numbers of its own daemon.
DAEMON = SRUN | {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_TASKS_PER_NODE": "1(x2)"}
MINDSPORE = {"RANK_ID": "2", "RANK_SIZE": "8", "DEVICE_ID": "6"}

READ = [
    ("nothing", {}, (0, 1, 0, 1, 0)),
    ("openmpi", OPENMPI, (5, 8, 1, 4, 1)),
    ("openmpi_in_slurm", OPENMPI | DAEMON, (5, 8, 1, 4, 1)),
    ("mpich", MPICH, (3, 4, 1, 2, 1)),
    ("mpich_in_slurm", MPICH | DAEMON, (3, 4, 1, 2, 1)),
    ("srun", SRUN, (3, 4, 0, 1, 0)),
    ("srun_pmix", SRUN | {"PMIX_RANK": "3"}, (3, 4, 0, 1, 0)),
    ("srun_pmi2", SRUN | {"PMI_RANK": "3", "PMI_SIZE": "4"}, (3, 4, 0, 1, 0)),
    ("srun_step_is_smaller", SRUN | {"SLURM_NTASKS": "9", "SLURM_STEP_NUM_TASKS": "4"}, (3, 4, 0, 1, 0)),
    ("batch_script", {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_NODEID": "0"}, (0, 1, 0, 1, 0)),
    ("mindspore_scripts", MINDSPORE, (2, 8, 2, 8, 6)),
    ("mpi_before_mindspore", MINDSPORE | OPENMPI, (5, 8, 1, 4, 6)),
    ("size_alone_is_no_rank", {"RANK_SIZE": "8"}, (0, 1, 0, 1, 0)),
]


@pytest.mark.parametrize(("variables", "expected"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_rank_is_read_from_the_variables(variables: dict[str, str], expected: tuple[int, ...]) -> None:
    assert Environment.read(variables) == Environment(*expected)


def test_variables_are_those_of_the_process_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OPENMPI.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("DEVICE_ID", raising=False)
    assert Environment.read() == Environment(5, 8, 1, 4, 1)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (OPENMPI | {"OMPI_COMM_WORLD_RANK": "x"}, 'OMPI_COMM_WORLD_RANK="x"'),
        (OPENMPI | {"OMPI_COMM_WORLD_RANK": "8"}, "rank 8 of 8"),
        ({"PMI_RANK": "0"}, "PMI_SIZE is not set"),
        ({"RANK_ID": "0"}, "RANK_SIZE is not set"),
        (MINDSPORE | {"DEVICE_ID": "-1"}, 'DEVICE_ID="-1"'),
        (SRUN | {"SLURM_TASKS_PER_NODE": "2(y3)"}, 'SLURM_TASKS_PER_NODE="2(y3)"'),
        (SRUN | {"SLURM_NODEID": "2"}, "no node 2"),
        ({"PMIX_RANK": "0"}, "SLURM_NTASKS is not set"),
    ],
)
def test_wrong_variable_is_named(variables: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Environment.read(variables)
    assert words in str(caught.value)


LAUNCHER = "start the job with one launcher, or unset its variables"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((2, 2, 0, 1), "rank 2 of 2, local rank 0 of 1"),
        ((-1, 2, 0, 1), "rank -1 of 2, local rank 0 of 1"),
        ((0, 2, 1, 1), "rank 0 of 2, local rank 1 of 1"),
        ((0, 2, -1, 1), "rank 0 of 2, local rank -1 of 1"),
        ((0, 2, 0, 3), "rank 0 of 2, local rank 0 of 3"),
        ((0, 0, 0, 0), "rank 0 of 0, local rank 0 of 0"),
    ],
)
def test_numbers_that_cannot_be_are_refused_together(values: tuple[int, int, int, int], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Environment(*values, 0)
    assert str(caught.value) == f"the environment says {words}, which cannot be; {LAUNCHER}"


@pytest.mark.parametrize("values", [(0, 1, 0, 1), (1, 2, 1, 2), (7, 8, 0, 1)])
def test_the_last_rank_of_a_job_and_of_a_host_can_be(values: tuple[int, int, int, int]) -> None:
    assert Environment(*values, 3).device_id == 3


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (
            {"PMI_RANK": "0"},
            "PMI_SIZE is not set, but other variables say this is a rank; set it, or unset those",
        ),
        (
            MPICH | {"PMI_RANK": "1234567890"},
            'PMI_RANK="1234567890" is not a whole number from 0; set it to one, or unset it',
        ),
        (MPICH | {"PMI_SIZE": "\u0663"}, 'PMI_SIZE="\u0663" is not a whole number from 0; set it to one, or unset it'),
        (MPICH | {"DEVICE_ID": ""}, 'DEVICE_ID="" is not a whole number from 0; set it to one, or unset it'),
        (SRUN | {"SLURM_NODEID": "2"}, 'SLURM_TASKS_PER_NODE="3,1" has no node 2; start the job with srun anew'),
        (
            SRUN | {"SLURM_STEP_TASKS_PER_NODE": "4", "SLURM_NODEID": "1"},
            'SLURM_STEP_TASKS_PER_NODE="4" has no node 1; start the job with srun anew',
        ),
        (
            SRUN | {"SLURM_TASKS_PER_NODE": "x" * 70},
            f'SLURM_TASKS_PER_NODE="{"x" * 60}" is no list of counts (tasks per node "{"x" * 55}...": "{"x" * 55}..." '
            'is no count; write it as in "2(x3),1"); start the job anew',
        ),
    ],
)
def test_a_wrong_variable_is_told_with_the_mend(variables: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Environment.read(variables)
    assert str(caught.value) == words


def test_numbers_of_nine_digits_are_taken() -> None:
    assert Environment.read({"RANK_ID": "0", "RANK_SIZE": "1", "DEVICE_ID": "999999999"}).device_id == 999_999_999
