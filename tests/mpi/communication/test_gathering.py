"""Ranks that a shell starts one by one, as MindSpore's scripts do it: they are one job, or are refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mpiparallel.cluster.gathering.hand_started import HandStarted
from tests.conformance import patience
from tests.conformance.mpi_launcher import environment
from tests.conformance.trainings.shell_loop import LOOP, codes, logs, write_table

pytestmark = pytest.mark.mpi

_PROGRAM = Path(__file__).parents[2] / "conformance" / "trainings" / "hand_started_ranks.py"
_OUTER = ("OMPI_", "PMIX_", "PMI_", "SLURM_", "RANK_", "DEVICE_ID", "MPI_LOCAL")
_PYTEST = ("-m", "pytest", "-s", "-v", "-p", "no:cacheprovider")


@dataclass
class Shell:
    """Starts processes by hand, with ``python``, in ``folder``."""

    python: Path
    root: Path
    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def variables(self, **more: str) -> dict[str, str]:
        """Return the environment of a shell that no launcher has started."""
        known = {name: value for name, value in environment(self.root).items() if not name.startswith(_OUTER)}
        return known | more

    def loop(self, size: int, command: Sequence[object], **variables: str) -> str:
        """Run the loop to its end, and return what it prints."""
        script = self.folder / "loop.sh"
        script.write_text(LOOP)
        return patience.run(
            ["sh", str(script), str(size), str(self.python), *map(str, command)],
            cwd=self.folder,
            env=self.variables(**variables),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout

    def start(self, rank: int, *command: object, **variables: str) -> subprocess.Popen[str]:
        """Start one rank, in a folder of its own."""
        folder = self.folder / f"device{rank}"
        folder.mkdir(exist_ok=True)
        process = subprocess.Popen(
            [str(self.python), *map(str, command or (_PROGRAM,))],
            cwd=folder,
            env=self.variables(RANK_ID=str(rank), DEVICE_ID=str(rank), **variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(process)
        return process


@pytest.fixture
def shell(mpi_python: Path, pytestconfig: pytest.Config, tmp_path: Path) -> Shell:
    return Shell(mpi_python, pytestconfig.rootpath, tmp_path)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "table.json", [("10.*.*.*", 2)])


def output(process: subprocess.Popen[str]) -> str:
    return patience.communicated(process)[0]


def is_waiting(process: subprocess.Popen[str]) -> bool:
    """Tell whether a process has come so far that it waits for the others."""
    listed = {line.split()[6] for line in Path("/proc/net/unix").read_text().splitlines() if "@mpiparallel" in line}
    held = set()
    for path in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(OSError):
            held.add(str(path.readlink()).removeprefix("socket:[").removesuffix("]"))
    return bool(listed & held)


@pytest.mark.sample
def test_the_loop_of_the_tutorials_is_one_job_with_its_folders(shell: Shell, table: Path, tmp_path: Path) -> None:
    said = shell.loop(2, [*_PYTEST, _PROGRAM], RANK_TABLE_FILE=str(table))
    found = logs(tmp_path, 2)
    assert said == "training success\n", found
    assert codes(tmp_path, 2) == [0, 0]
    for rank in range(2):
        told = (tmp_path / f"device{rank}" / "found").read_text().split()
        assert told[:3] + told[4:] == [str(rank), "2", "3", str(rank)]
        assert f"rank {rank} of 2 on " in found[rank]
    assert 'its server_id "10.*.*.*" is taken for this host' in found[0]


OWNING = """
import os, socket, sys, time
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
owned = []
for name in sys.argv[1:]:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind("\\0" + name)
    listener.listen(0)
    owned.append(listener)
print("owned", flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be a second user as well")
def test_names_that_another_user_owns_first_are_not_believed_and_stop_nobody(
    shell: Shell, table: Path, tmp_path: Path
) -> None:
    digest = HandStarted.of({"RANK_ID": "0", "RANK_TABLE_FILE": str(table)}).digest
    begun = [f"mpiparallel-rank-{os.geteuid()}-{digest}-{rank}" for rank in range(2)]
    names = [*begun, *(f"{name}-{number:016x}" for name in begun for number in range(3))]
    with subprocess.Popen([sys.executable, "-I", "-c", OWNING, *names], stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout
            assert owner.stdout.readline() == "owned\n"
            said = shell.loop(2, [_PROGRAM], RANK_TABLE_FILE=str(table))
        finally:
            owner.kill()
    assert said == "training success\n", logs(tmp_path, 2)
    assert codes(tmp_path, 2) == [0, 0]


@pytest.mark.parametrize("fault", ["raise", "kill"])
@pytest.mark.parametrize("runner", [(), _PYTEST], ids=["python", "pytest"])
def test_a_rank_that_fails_ends_all_and_rank_0_says_who_it_was(
    shell: Shell, tmp_path: Path, fault: str, runner: tuple[str, ...]
) -> None:
    said = shell.loop(3, [*runner, _PROGRAM], FAULT=fault)
    found = logs(tmp_path, 3)
    assert said == "training failed\n", found
    assert codes(tmp_path, 3) == [1, 1 if fault == "raise" else 137, 1]
    assert "error: rank 1 of 3 failed first: " in found[0]
    assert "rank 2 ends with the job; rank 0 says why" in found[2]
    if fault == "raise":
        assert "ValueError: wrong on purpose" in found[1]


def test_each_rank_keeps_the_exit_code_of_its_program(shell: Shell, table: Path, tmp_path: Path) -> None:
    shell.loop(2, [_PROGRAM], RANK_TABLE_FILE=str(table), CODE="7")
    assert codes(tmp_path, 2) == [7, 7]


def test_without_a_table_ranks_of_one_session_are_one_job(shell: Shell) -> None:
    processes = [shell.start(rank, RANK_SIZE="3") for rank in (2, 0, 1)]
    said = [output(process) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], said


def test_ranks_that_do_not_come_are_named_to_all_that_wait(shell: Shell, table: Path) -> None:
    table = write_table(table, [("10.*.*.*", 4)])
    told = {"RANK_TABLE_FILE": str(table), "RANK_SIZE": "4", "HCCL_CONNECT_TIMEOUT": f"{patience.stretched(2.0):.0f}"}
    processes = [shell.start(rank, **told) for rank in (1, 0)]
    for process in processes:
        said = output(process)
        assert process.returncode == 1
        assert "ranks 2, 3 of 4 did not come to rank 0 within" in said
        assert f"mpiparallel run --rank-table {table} {_PROGRAM}" in said


def test_without_rank_0_the_others_do_not_wait_for_ever(shell: Shell, table: Path) -> None:
    process = shell.start(1, RANK_TABLE_FILE=str(table), RANK_SIZE="2", HCCL_CONNECT_TIMEOUT="1")
    assert "rank 0 of 2 did not come to rank 1 within" in output(process)
    assert process.returncode == 1


def test_two_that_claim_to_be_one_rank_are_both_refused(shell: Shell, table: Path) -> None:
    told = {"RANK_TABLE_FILE": str(table), "RANK_SIZE": "2"}
    first = shell.start(1, **told)
    patience.wait_until(lambda: is_waiting(first))
    second = shell.start(1, **told)
    for process, other in ((first, second), (second, first)):
        assert f"rank 1 of this job is claimed by another process, number {other.pid}, as well" in output(process)
        assert process.returncode == 1


def test_jobs_of_one_table_in_two_folders_are_kept_apart(shell: Shell, tmp_path: Path) -> None:
    jobs = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        own = write_table(folder / "table.json", [("10.*.*.*", 2)])
        jobs.append((Shell(shell.python, shell.root, folder), {"RANK_TABLE_FILE": str(own), "RANK_SIZE": "2"}))
    processes = [each.start(rank, **told) for rank in (1, 0) for each, told in jobs]
    said = [output(process) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0, 0], said
    assert all((tmp_path / name / f"device{rank}" / "found").exists() for name in "ab" for rank in range(2))


def test_what_a_killed_job_leaves_does_not_hinder_the_next(shell: Shell, table: Path) -> None:
    told = {"RANK_TABLE_FILE": str(table), "RANK_SIZE": "2"}
    killed = shell.start(1, **told)
    patience.wait_until(lambda: is_waiting(killed))
    killed.send_signal(signal.SIGKILL)
    output(killed)
    processes = [shell.start(rank, **told) for rank in (1, 0)]
    said = [output(process) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said


def test_a_job_that_cannot_be_started_is_refused_on_all_that_wait(shell: Shell, table: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    (broken / "mpi4py").mkdir(parents=True)
    (broken / "mpi4py" / "__init__.py").write_text("raise ImportError('there is no MPI')\n")
    told = {"RANK_TABLE_FILE": str(table), "RANK_SIZE": "2", "PYTHONPATH": f"{broken}{os.pathsep}{shell.root}"}
    processes = [shell.start(rank, **told) for rank in (1, 0)]
    for process in processes:
        said = output(process)
        assert process.returncode == 1
        assert "the processes could not be made one job" in said
        assert "there is no MPI" in said
        assert f"mpiparallel run --rank-table {table} " in said


def test_mpi_that_was_started_too_early_is_refused_at_once(shell: Shell, tmp_path: Path) -> None:
    program = tmp_path / "early.py"
    program.write_text("from mpi4py import MPI\nfrom mpiparallel.communication import init\ninit()\n")
    process = shell.start(0, program, RANK_SIZE="2")
    assert "mpi4py.MPI was imported before" in output(process)
    assert process.returncode == 1


def test_a_failed_test_of_pytest_ends_the_ranks_of_a_bare_mpirun_too(
    mpi_run: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", "raise")
    said = mpi_run(2, "pytest", *_PYTEST[2:], _PROGRAM, fails=True)
    assert "pytest ended with exit code 1; the job ends" in said
    assert "ValueError: wrong on purpose" in said
