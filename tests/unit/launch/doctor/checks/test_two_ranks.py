"""What is told of a start of two ranks, word by word, and where their logs go."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpiparallel.launch.doctor.checks.two_ranks import find_start
from tests.unit.launch.doctor.faked_machine import OPENMPI, FakedMachine, told

READY = {"launcher": OPENMPI, "mpi_library": "true"}
AGAIN = "mpiparallel run -n 2 -m mpiparallel.launch.doctor.probes.two_ranks"


@pytest.mark.parametrize(
    ("shell", "what", "mend"),
    [
        ("echo '{\"sum\": 1}'", "2 ranks counted 1 ranks, so they do not meet", AGAIN),
        ("echo '{\"other\": 1}'", "2 ranks counted None ranks, so they do not meet", AGAIN),
        (
            "echo 'no route' >&2; exit 3",
            "mpiparallel run -n 2 ended with exit code 3: no route",
            f"{AGAIN}; it says more",
        ),
        ("true", "mpiparallel run -n 2 says nothing", f"{AGAIN}; it says more"),
        ("kill -ABRT $$", "mpiparallel run -n 2 was ended by SIGABRT", f"{AGAIN}; it says more"),
    ],
)
def test_a_start_that_fails_is_told_with_how_to_see_more(faked: FakedMachine, shell: str, what: str, mend: str) -> None:
    assert told(find_start(faked(probes={**READY, "mpiparallel": shell}))) == [("start", "error", what, mend)]


def test_logs_go_to_the_nearest_folder_that_is_there_and_are_taken_away(faked: FakedMachine, tmp_path: Path) -> None:
    shell = 'echo "$7" > "$0.logs"; echo \'{"sum": 2}\''
    machine = faked(probes={**READY, "mpiparallel": shell}, log_dir=tmp_path / "a/b")
    (finding,) = find_start(machine)
    assert finding.state == "ok"
    logs = Path(Path(f"{machine.python}.logs").read_text().strip())
    assert logs.parent == tmp_path
    assert logs.name.startswith(".mpiparallel_doctor_")
    assert not logs.exists()


def test_a_folder_that_takes_no_logs_is_told_with_why(faked: FakedMachine) -> None:
    ((subject, state, what, mend),) = told(find_start(faked(probes=READY, log_dir=Path("/proc/self/logs"))))
    assert (subject, state) == ("start", "error")
    assert what.startswith("2 ranks were not started, as their logs cannot go to /proc/self (")
    assert mend == "mpiparallel doctor --log-dir DIR, a folder that can be written"


def test_within_a_step_of_srun_no_ranks_are_started(faked: FakedMachine) -> None:
    machine = faked(probes=READY, variables={"SLURM_STEP_ID": "0"})
    assert told(find_start(machine)) == [
        (
            "start",
            "note",
            "2 ranks were not started, as srun holds the cores of this step",
            "run the doctor in a batch script, or by salloc, without srun",
        )
    ]
