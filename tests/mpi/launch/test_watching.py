"""What the launcher does when something dies or hangs, on real ranks of each MPI."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from tests.conformance import patience

pytestmark = pytest.mark.mpi

ROOT = Path(__file__).parents[3]
OUTER = ("OMPI_", "PMIX_", "PMI_", "SLURM_", "RANK_", "DEVICE_ID", "OPENBLAS_", "MPI_LOCAL", "MPIPARALLEL_")
BEGIN = "import os, signal, sys, time\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"
INIT = (
    "import os, sys, time\nimport numpy as np\nfrom mpiparallel.communication import init, world\n"
    "init()\nown = world.current()\nx = np.ones(4)\n"
)
READY = "open(f'up{comm.rank}', 'w').close()\n"
FIRST = "os.environ['MPIPARALLEL_RESTART_COUNT'] == '0'"


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OUTER)}
    return kept | {"PYTHONPATH": str(ROOT)}


def start(python: Path, folder: Path, program: str, *options: str) -> subprocess.Popen[str]:
    (folder / "script.py").write_text(program)
    return subprocess.Popen(
        [str(python), "-m", "mpiparallel", "run", "-n", "3", *options, "script.py"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(python: Path, folder: Path, program: str, *options: str) -> tuple[int, str, str]:
    with start(python, folder, program, *options) as job:
        output, errors = patience.communicated(job)
    return job.returncode, output, errors


def workers(folder: Path) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == folder and b"launch.rank.worker" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def listens(job: subprocess.Popen[str], number: signal.Signals) -> bool:
    """Tell whether a process has a handler for a signal."""
    status = Path(f"/proc/{job.pid}/status").read_text()
    return bool(int(re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)[1], 16) >> (number - 1) & 1)


ENDS = [
    pytest.param(
        "os.kill(os.getpid(), signal.SIGKILL)", 137, "died first: killed by SIGKILL", marks=pytest.mark.sample
    ),
    ("os.kill(os.getpid(), signal.SIGSEGV)", 139, "died first: killed by SIGSEGV"),
    ("os._exit(5)", 5, "died first: it left with exit code 5"),
    ("os._exit(0)", 1, "died first"),
    pytest.param("raise KeyError('no such')", 1, "failed first: KeyError: 'no such'", marks=pytest.mark.sample),
    ("sys.exit(7)", 7, "failed first: it left with exit code 7"),
]


@pytest.mark.parametrize(("end", "code", "words"), ENDS)
def test_first_cause_is_told_with_its_last_lines(
    mpi_python: Path, tmp_path: Path, end: str, code: int, words: str
) -> None:
    program = (
        f"print('step 12 of', comm.rank, flush=True)\ncomm.Barrier()\nif comm.rank == 1:\n    {end}\ncomm.Barrier()\n"
    )
    returned, _, errors = run(mpi_python, tmp_path, BEGIN + program)
    assert returned == code, errors
    assert f"rank 1 of 3 {words}" in errors
    assert "ended because of it: ranks 0, 2" in errors
    assert ("step 12 of 1" in errors) == ("SEGV" not in words and "KeyError" not in words)
    assert str(tmp_path / "device1" / "train.log1") in errors
    assert not workers(tmp_path)


def test_where_one_reader_sees_both_streams_nothing_is_told_twice(mpi_python: Path, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(BEGIN + "if comm.rank == 0:\n    raise KeyError('no such')\ncomm.Barrier()\n")
    ended = patience.run(
        [str(mpi_python), "-m", "mpiparallel", "run", "-n", "3", "script.py"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ended.stdout.count("Traceback") == 1
    assert "its traceback is above" in ended.stdout


def test_what_a_killed_mpirun_leaves_is_cleared_away_by_the_next_job(
    mpi_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as sessions:
        monkeypatch.setenv("TMPDIR", sessions)
        with start(mpi_python, tmp_path, BEGIN + READY + "signal.pause()\n") as job:
            patience.wait_until(lambda: (tmp_path / "up0").exists())
            job.kill()
        patience.wait_until(lambda: not workers(tmp_path))
        assert bool(list(Path(sessions).glob("ompi.*"))) == (not (mpi_python.parent / "mpichversion").exists())
        returned, _, errors = run(mpi_python, tmp_path, BEGIN)
        assert returned == 0, errors
        assert not list(Path(sessions).rglob("*"))


def test_rank_that_leaves_early_is_a_hang_and_not_a_wait_for_ever(mpi_python: Path, tmp_path: Path) -> None:
    program = "own.all_reduce(x)\nif own.rank == 1:\n    sys.exit(0)\nown.all_reduce(x)\n"
    returned, _, errors = run(mpi_python, tmp_path, INIT + program)
    assert returned == 86, errors
    found = re.search(r"the job hung: ranks 0,2 wait in all_reduce #\d+ .* for rank 1, which has ended", errors)
    assert found, errors


def test_watchdog_ends_a_job_that_waits_for_a_rank_that_does_not_come(mpi_python: Path, tmp_path: Path) -> None:
    program = "if own.rank == 1:\n    time.sleep(86400)\nown.all_reduce(x)\n"
    returned, _, errors = run(mpi_python, tmp_path, INIT + program, "--watchdog", str(patience.stretched(2.0)))
    assert returned == 86, errors
    assert re.search(r"ranks 0,2 wait in all_reduce #\d+ .* for rank 1, which is at script.py:8", errors), errors


def test_stopped_rank_is_not_taken_for_dead(mpi_python: Path, tmp_path: Path) -> None:
    program = (
        "if comm.rank == 1:\n    os.kill(os.getpid(), signal.SIGSTOP)\n"
        "while comm.rank != 1 and not os.path.exists('go'):\n    time.sleep(0.02)\ncomm.Barrier()\n"
    )
    with start(mpi_python, tmp_path, BEGIN + program) as job:
        stopped: list[int] = []

        def is_stopped() -> bool:
            states = {
                pid: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in workers(tmp_path)
            }
            stopped[:] = [pid for pid, state in states.items() if state == "T"]
            return bool(stopped)

        patience.wait_until(is_stopped)
        time.sleep(3.0)
        assert job.poll() is None
        (tmp_path / "go").touch()
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        errors = patience.communicated(job)[1]
    assert job.returncode == 0, errors


def test_killed_mpirun_takes_all_ranks_with_it_and_is_named(mpi_python: Path, tmp_path: Path) -> None:
    with start(mpi_python, tmp_path, BEGIN + READY + "signal.pause()\n") as job:
        patience.wait_until(lambda: all((tmp_path / f"up{rank}").exists() for rank in range(3)))
        children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        errors = patience.communicated(job)[1]
    assert job.returncode == 137
    assert "mpirun itself was killed by SIGKILL" in errors
    patience.wait_until(lambda: not workers(tmp_path))


@pytest.mark.parametrize("state", ["pass", "os.kill(os.getpid(), signal.SIGSTOP)", "while True: pass"])
def test_no_rank_outlives_a_killed_launcher(mpi_python: Path, tmp_path: Path, state: str) -> None:
    program = f"{READY}if comm.rank == 1:\n    {state}\nif comm.rank == 2:\n    time.sleep(86400)\ncomm.Barrier()\n"
    with start(mpi_python, tmp_path, BEGIN + program) as job:
        patience.wait_until(lambda: all((tmp_path / f"up{rank}").exists() for rank in range(3)))
        job.kill()
        patience.wait_until(lambda: not workers(tmp_path))


def test_restart_runs_the_same_command_again_and_keeps_the_logs(mpi_python: Path, tmp_path: Path) -> None:
    program = (
        f"print('attempt', os.environ['MPIPARALLEL_RESTART_COUNT'], flush=True)\ncomm.Barrier()\n"
        f"if comm.rank == 2 and {FIRST}:\n    os.kill(os.getpid(), 9)\ncomm.Barrier()\n"
    )
    returned, output, errors = run(mpi_python, tmp_path, BEGIN + program, "--on-failure", "restart:2")
    assert (returned, output) == (0, "attempt 0\nattempt 1\n"), errors
    assert "rank 2 of 3 died first" in errors
    assert "restart 1 of 2 in 1 s" in errors
    folder = tmp_path / "device2"
    assert (folder / "train.log2.attempt0").read_text() == "attempt 0\n"
    assert (folder / "train.log2").read_text() == "attempt 1\n"
    assert run(mpi_python, tmp_path, BEGIN)[0] == 0
    assert not list(folder.glob("*.attempt*"))


def test_preempted_job_ends_with_the_code_for_requeue(mpi_python: Path, tmp_path: Path) -> None:
    program = "import atexit\natexit.register(print, 'at exit', comm.rank)\nsys.exit(85)\n"
    returned, output, errors = run(mpi_python, tmp_path, BEGIN + program, "--on-failure", "restart")
    assert (returned, output) == (85, "at exit 0\n"), errors
    assert "preempted: committed, start again with the same command" in errors
    assert "error" not in errors


@pytest.mark.parametrize("name", ["USR1", "USR2", "TERM"])
def test_preemption_signal_reaches_ranks_from_before_they_begin(mpi_python: Path, tmp_path: Path, name: str) -> None:
    program = (
        "from mpiparallel.cluster.preemption_signal import signal_that_came\n"
        "while not signal_that_came():\n    time.sleep(0.02)\nprint(signal_that_came())\n"
    )
    with start(mpi_python, tmp_path, BEGIN + program, "--preemption-signal", name) as job:
        # The launcher listens once it has started mpirun.
        patience.wait_until(lambda: (tmp_path / "launcher.log").exists() and listens(job, signal.Signals[f"SIG{name}"]))
        job.send_signal(signal.Signals[f"SIG{name}"])
        output, errors = patience.communicated(job)
    assert (job.returncode, output) == (0, f"{int(signal.Signals['SIG' + name])}\n"), errors


def test_tee_shows_whole_lines_of_the_ranks_asked_for(mpi_python: Path, tmp_path: Path) -> None:
    program = "for line in range(200):\n    print('line', line, 'x' * 50)\n"
    returned, output, errors = run(mpi_python, tmp_path, BEGIN + program, "--tee-ranks", "1-2")
    assert returned == 0, errors
    for rank in (1, 2):
        own = [line for line in output.splitlines() if line.startswith(f"[{rank}] ")]
        assert own == [f"[{rank}] line {line} {'x' * 50}" for line in range(200)]
    assert len(output.splitlines()) == 400


def test_token_of_the_control_channel_is_in_no_file_no_argument_and_no_environment(
    mpi_python: Path, tmp_path: Path
) -> None:
    program = (
        READY + "assert 'MPIPARALLEL_LINE' not in os.environ\nwhile not os.path.exists('go'):\n    time.sleep(0.02)\n"
    )
    with start(mpi_python, tmp_path, BEGIN + program) as job:
        patience.wait_until(lambda: all((tmp_path / f"up{rank}").exists() for rank in range(3)))
        variables = Path(f"/proc/{workers(tmp_path)[0]}/environ").read_bytes().split(b"\0")
        token = next(line for line in variables if line.startswith(b"MPIPARALLEL_LINE=")).rpartition(b":")[2]
        words = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        (tmp_path / "go").touch()
        errors = patience.communicated(job)[1]
    assert job.returncode == 0, errors
    assert len(token) == 64
    assert not any(token in line for line in words)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and token in path.read_bytes()]


SHRINKING = """
import numpy as np
x, y = np.ones(4), np.ones(4)
comm.Set_errhandler(MPI.ERRORS_RETURN)
try:
    comm.Barrier()
    if comm.rank == 1 and os.environ["MPIPARALLEL_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in range(50):
        comm.Allreduce(x, y)
        time.sleep(0.02)
except MPI.Exception:
    comm.Revoke()
    rest = comm.Shrink()
    rest.Allreduce(x, y)
    {after}
    rest.Barrier()
print("went on")
"""


@pytest.mark.parametrize(
    ("after", "code", "words", "restarted"),
    [
        ("pass", 0, "rank 1 of 3 died; the others went on and completed", False),
        ("1 / 0", 0, "failed first: ZeroDivisionError", True),
    ],
)
def test_shrinking_job_survives_a_death_and_no_exception(
    mpi_python: Path, tmp_path: Path, after: str, code: int, words: str, restarted: bool
) -> None:
    returned, _, errors = run(mpi_python, tmp_path, BEGIN + SHRINKING.format(after=after), "--on-failure", "shrink:1")
    assert returned == code, errors
    if (mpi_python.parent / "mpichversion").exists():
        assert "a failure restarts the job instead" in errors
        assert "rank 1 of 3 died first" in errors
    else:
        assert words in errors
        assert ("restart 1 of 1" in errors) == restarted
