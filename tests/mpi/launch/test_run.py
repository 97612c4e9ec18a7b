"""The launcher on real ranks, with whatever MPI the running Python has."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
from operator import itemgetter
from pathlib import Path

import pytest

from mpiparallel.cluster.rank_table import Device, RankTable, Server
from tests.conformance import patience

pytestmark = pytest.mark.mpi

ROOT = Path(__file__).parents[3]
OUTER = ("OMPI_", "PMIX_", "PMI_", "SLURM_", "RANK_", "DEVICE_ID", "OPENBLAS_", "MPI_LOCAL")
BEGIN = "import os, sys, time\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OUTER)}
    return kept | {"PYTHONPATH": str(ROOT)}


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "mpiparallel", "run", *options]


def run(folder: Path, program: str, *options: str, arguments: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(BEGIN + program)
    words = command(*(options or ("-n", "3")), "script.py", *arguments)
    return patience.run(words, cwd=folder, env=environment(), capture_output=True, text=True)


def processes_in(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == folder:
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


def vanished(folder: Path) -> bool:
    patience.wait_until(lambda: not processes_in(folder), lambda: str(processes_in(folder)))
    return True


def wait_for(*paths: Path) -> None:
    patience.wait_until(lambda: all(path.exists() for path in paths), lambda: str(paths))


def test_every_rank_leaves_its_folder(tmp_path: Path) -> None:
    program = (
        "assert (comm.rank, comm.size) == (int(os.environ['RANK_ID']), int(os.environ['RANK_SIZE']))\n"
        "print('rank', comm.rank, sys.argv, os.getcwd())\ncomm.Barrier()\n"
    )
    ended = run(tmp_path, program, "-n", "3", arguments=("--epochs", "2"))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"rank 0 ['script.py', '--epochs', '2'] {tmp_path}\n"
    for rank in range(3):
        device = tmp_path / f"device{rank}"
        assert (device / f"train.log{rank}").read_text().startswith(f"rank {rank} ")
        assert f"RANK_ID={rank}\n" in (device / f"env{rank}.log").read_text()
        assert (device / "completed").is_file()


def test_rank_table_gives_size_and_devices(tmp_path: Path) -> None:
    table = (ROOT / "rank_tables" / "rank_table_2pcs.json").read_text().replace('"device_id": "1"', '"device_id": "3"')
    (tmp_path / "table.json").write_text(table)
    program = "print(comm.gather(os.environ['DEVICE_ID']), os.environ['RANK_TABLE_FILE'])\n"
    ended = run(tmp_path, program, "--rank-table", "table.json", "--log-dir", "logs/first")
    assert ended.stdout == f"['0', '3'] {tmp_path}/table.json\n", ended.stderr
    assert (tmp_path / "logs" / "first" / "device1" / "completed").is_file()


def test_rank_owns_the_device_that_the_table_gives_it_in_whatever_order(tmp_path: Path) -> None:
    owned = {0: 2, 1: 0, 2: 3, 3: 1}
    table = RankTable((Server("127.0.0.1", tuple(Device(d, f"192.1.{d}.1", rank) for d, rank in owned.items())),))
    (tmp_path / "table.json").write_text(table.to_json())
    program = (
        "from mpiparallel.communication import get_rank, init\ninit()\n"
        "found = comm.gather((get_rank(), int(os.environ['RANK_ID']), int(os.environ['DEVICE_ID'])))\n"
        "print(found)\n"
    )
    ended = run(tmp_path, program, "--rank-table", "table.json")
    assert ended.returncode == 0, ended.stderr
    assert ast.literal_eval(ended.stdout) == [(rank, rank, d) for d, rank in sorted(owned.items(), key=itemgetter(1))]


def test_hostfile_of_this_machine_works_in_either_dialect(tmp_path: Path) -> None:
    for line in ("localhost slots=2", "localhost:2"):
        (tmp_path / "hosts").write_text(line)
        ended = run(tmp_path, "print(comm.size)\n", "-n", "2", "--hostfile", "hosts")
        assert (ended.returncode, ended.stdout) == (0, "2\n"), ended.stderr


def test_exception_on_one_rank_ends_ranks_that_wait(tmp_path: Path) -> None:
    ended = run(tmp_path, "if comm.rank == 1:\n    raise ValueError('wrong batch')\ncomm.Barrier()\n")
    assert ended.returncode == 1
    assert "rank 1 of 3 failed first: ValueError: wrong batch" in ended.stderr
    assert 'File "script.py", line 5, in <module>' in ended.stderr
    assert str(tmp_path / "device1" / "train.log1") in ended.stderr
    assert json.loads((tmp_path / "device1" / "failure.json").read_text())["rank"] == 1
    assert vanished(tmp_path)


def test_exit_code_of_a_rank_is_that_of_the_job(tmp_path: Path) -> None:
    ended = run(tmp_path, "if comm.rank == 2:\n    sys.exit(3)\ncomm.Barrier()\n")
    assert ended.returncode == 3
    assert "rank 2 of 3 failed first: it left with exit code 3" in ended.stderr


def test_of_a_script_that_refuses_its_arguments_its_own_words_are_told_and_no_traceback(tmp_path: Path) -> None:
    program = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--data', required=True)\n"
    ended = run(tmp_path, f"{program}parser.parse_args()\n")
    assert ended.returncode == 2
    cause = "the following arguments are required: --data"
    assert re.search(rf"rank \d of 3 failed first: \S+\.py: {cause}", ended.stderr), ended.stderr
    assert "last lines" in ended.stderr
    assert "raceback" not in ended.stdout + ended.stderr


def test_killed_rank_gives_128_and_the_signal(tmp_path: Path) -> None:
    ended = run(tmp_path, "if comm.rank == 1:\n    os.kill(os.getpid(), 9)\ncomm.Barrier()\n")
    assert ended.returncode == 137, ended.stderr
    assert "rank 1 of 3 died first: killed by SIGKILL" in ended.stderr
    assert "ended because of it: ranks 0, 2" in ended.stderr


def test_job_that_hangs_ends_at_its_timeout(tmp_path: Path) -> None:
    program = "print('up', flush=True)\nif comm.rank == 1:\n    time.sleep(86400)\ncomm.Barrier()\n"
    seconds = f"{patience.stretched(5.0):.0f}"
    ended = run(tmp_path, program, "-n", "2", "--timeout", seconds)
    assert ended.returncode == 124
    assert f"not ended after {seconds} s" in ended.stderr
    assert 'rank 1: File "script.py", line 6 in <module>' in ended.stderr
    assert vanished(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.usefixtures("heeded_interrupts")
def test_no_rank_outlives_its_launcher(tmp_path: Path, number: signal.Signals) -> None:
    program = "open(f'up{comm.rank}', 'w').close()\nif comm.rank == 1:\n    time.sleep(86400)\ncomm.Barrier()\n"
    (tmp_path / "script.py").write_text(BEGIN + program)
    with subprocess.Popen(command("-n", "2", "script.py"), cwd=tmp_path, env=environment()) as launcher:
        wait_for(tmp_path / "up0", tmp_path / "up1")
        launcher.send_signal(number)
        code = patience.waited(launcher)
    assert code == (-9 if number == signal.SIGKILL else 128 + number)
    assert vanished(tmp_path)


def test_signal_to_save_state_reaches_every_rank(tmp_path: Path) -> None:
    program = (
        "import signal\ntold = []\nsignal.signal(signal.SIGUSR1, lambda number, frame: told.append(number))\n"
        "open(f'up{comm.rank}', 'w').close()\nwhile not told:\n    time.sleep(0.02)\n"
    )
    (tmp_path / "script.py").write_text(BEGIN + program)
    with subprocess.Popen(command("-n", "2", "script.py"), cwd=tmp_path, env=environment()) as launcher:
        wait_for(tmp_path / "up0", tmp_path / "up1")
        launcher.send_signal(signal.SIGUSR1)
        assert patience.waited(launcher) == 0


def test_second_job_in_the_same_log_folder_is_refused(tmp_path: Path) -> None:
    program = "open(f'up{comm.rank}', 'w').close()\nwhile not os.path.exists('end'):\n    time.sleep(0.02)\n"
    (tmp_path / "script.py").write_text(BEGIN + program)
    with subprocess.Popen(command("-n", "2", "script.py"), cwd=tmp_path, env=environment()) as launcher:
        wait_for(tmp_path / "up0", tmp_path / "up1")
        second = run(tmp_path, program, "-n", "2")
        (tmp_path / "end").touch()
        assert patience.waited(launcher) == 0
    assert second.returncode == 2
    assert "another job is writing there" in second.stderr


def test_marks_of_an_earlier_job_do_not_count(tmp_path: Path) -> None:
    assert run(tmp_path, "", "-n", "2").returncode == 0
    assert run(tmp_path, "os.kill(os.getpid(), 9)\n", "-n", "2").returncode == 137


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("-n", "2", "absent.py"), "absent.py"),
        (("-n", "4", "--rank-table", str(ROOT / "rank_tables" / "rank_table_2pcs.json"), "script.py"), "has 2 ranks"),
    ],
)
def test_refused_job_starts_nothing(tmp_path: Path, options: tuple[str, ...], reason: str) -> None:
    (tmp_path / "script.py").write_text("")
    words = command(*options)
    ended = patience.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert ended.returncode == 2
    assert reason in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


REFUSED = """
import numpy as np
import mpiparallel as ms
from mpiparallel import nn, ops


class Net(nn.Cell):
    def construct(self, x):
        return ops.matmul(x, x)


Net()(ms.Tensor(np.zeros((2, 3))))
"""


@pytest.mark.parametrize("debug", [False, True])
def test_what_mpiparallel_refuses_shows_the_users_lines_and_not_its_own_inside(tmp_path, debug) -> None:
    script = tmp_path / "refused.py"
    script.write_text(REFUSED)
    words = ["--debug"] * debug + ["run", "-n", "2", "--log-dir", str(tmp_path), str(script)]
    done = patience.run([sys.executable, "-m", "mpiparallel", *words], capture_output=True, text=True)
    assert done.returncode == 1
    assert "refused.py:9: MatMul: x (2, 3) and y (2, 3)" in done.stderr
    assert ("graph/trace.py" in done.stderr) == debug
