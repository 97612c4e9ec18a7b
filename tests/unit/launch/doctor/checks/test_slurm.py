"""What is told of SLURM, word by word: where it is, the allocation, and which srun starts ranks."""

from __future__ import annotations

import pytest

from mpiparallel.launch.doctor.checks.slurm import find_slurm
from tests.unit.launch.doctor.faked_machine import MPICH, OPENMPI, FakedMachine, told

LISTS = """case "$1" in
--version) echo '  slurm 22.05.8 ';;
*) printf 'MPI plugin types are...\\n\\t%s\\n' OFFERED >&2;;
esac"""
NEEDS = "and without it each rank is alone"
BY_RUN = "or start jobs by mpiparallel run, which needs none"


@pytest.mark.parametrize(
    ("launcher", "offered", "line"),
    [
        (OPENMPI, "none pmi2 pmix_v4", ("ok", "srun --mpi=pmix starts ranks of Open MPI v5.0.11", "")),
        (MPICH, "pmi2", ("ok", "srun --mpi=pmi2 starts ranks of MPICH 5.0.2", "")),
        (
            OPENMPI,
            "pmi2 none cray_shasta pmi2",
            (
                "warning",
                f"offers cray_shasta, none, pmi2; Open MPI v5.0.11 needs pmix, {NEEDS}",
                f"apt-get install libpmix-dev on each node and restart slurmd, {BY_RUN}",
            ),
        ),
        (
            MPICH,
            "nothing",
            (
                "warning",
                f"offers no interface; MPICH 5.0.2 needs pmi2, {NEEDS}",
                f"install SLURM's pmi2 plugin on each node, {BY_RUN}",
            ),
        ),
    ],
)
def test_what_srun_offers_is_held_against_what_the_library_needs(
    faked: FakedMachine, launcher: str, offered: str, line: tuple[str, str, str]
) -> None:
    machine = faked(programs={"srun": LISTS.replace("OFFERED", f"'{offered}'")}, probes={"launcher": launcher})
    assert told(find_slurm(machine)) == [
        ("SLURM", "ok", "slurm 22.05.8, outside any job", ""),
        ("srun", *line),
    ]


@pytest.mark.parametrize(
    ("variables", "told_of_it"),
    [
        ({"SLURM_JOB_ID": "7"}, "job 7: ? nodes, ? tasks a node, on ?"),
        (
            {
                "SLURM_JOB_ID": "7",
                "SLURM_JOB_NUM_NODES": "3",
                "SLURM_TASKS_PER_NODE": "2",
                "SLURM_JOB_NODELIST": "n[1-3]",
            },
            "job 7: 3 nodes, 2 tasks a node, on n[1-3]",
        ),
        ({"SLURM_JOB_NUM_NODES": "3"}, "outside any job"),
    ],
)
def test_an_allocation_is_told_by_what_is_known_of_it(
    faked: FakedMachine, variables: dict[str, str], told_of_it: str
) -> None:
    silent = LISTS.replace("echo '  slurm 22.05.8 '", "true").replace("OFFERED", "pmix")
    machine = faked(programs={"srun": silent}, probes={"launcher": OPENMPI}, variables=variables)
    assert told(find_slurm(machine))[0] == ("SLURM", "ok", f"SLURM, {told_of_it}", "")


FAILING = "echo 'fatal: no configuration' >&2; exit 1"
HOST = "scontrol ping; is this a host of the cluster?"
FAILED = "but srun --mpi=list ended with exit code 1: fatal: no configuration"


@pytest.mark.parametrize(
    ("programs", "variables", "line"),
    [
        ({}, {}, ("note", "not there", "")),
        (
            {},
            {"SLURM_JOB_ID": "7"},
            (
                "error",
                "job 7, but srun is not on the PATH",
                'export PATH=/opt/slurm/bin:"$PATH", or wherever your SLURM is',
            ),
        ),
        ({"srun": FAILING}, {}, ("note", f"srun is there, {FAILED}", HOST)),
        ({"srun": FAILING}, {"SLURM_JOB_ID": "7"}, ("error", f"job 7, {FAILED}", HOST)),
    ],
)
def test_a_slurm_that_does_not_work_is_told_with_where_to_look(
    faked: FakedMachine, programs: dict[str, str], variables: dict[str, str], line: tuple[str, str, str]
) -> None:
    machine = faked(programs=programs, variables=variables)
    machine.variables["PATH"] = machine.variables["PATH"].partition(":")[0]  # type: ignore[index]
    assert told(find_slurm(machine)) == [("SLURM", *line)]
