from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpiparallel.cluster.environment import Environment
from mpiparallel.cluster.flight.recorder import FILE_VARIABLE
from mpiparallel.cluster.flight.recording import Recording
from mpiparallel.cluster.rank_order import RankOrder
from mpiparallel.cluster.rank_table import Device, RankTable, Server
from mpiparallel.errors import LaunchError
from mpiparallel.launch.job.rank_folder import RankFolder
from mpiparallel.launch.job.script import Script
from mpiparallel.launch.rank import worker
from mpiparallel.launch.rank.identity import in_order, name_rank
from tests.conformance import patience


def work(folder: Path, program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``program`` as rank 1 of 2, as MPICH would start it."""
    (folder / "script.py").write_text(program)
    rank = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
    others = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMIX_", "DEVICE_ID"))}
    return patience.run(
        [
            sys.executable,
            "-m",
            "mpiparallel.launch.rank.worker",
            "--ranks",
            "2",
            "--log-dir",
            "logs",
            "script.py",
            *arguments,
        ],
        cwd=folder,
        env=others | rank | {"PYTHONPATH": str(Path(__file__).parents[4])} | variables,
        capture_output=True,
        text=True,
    )


def test_rank_that_ends_well_leaves_log_environment_and_mark(tmp_path: Path) -> None:
    program = (
        "import os, sys\nprint(sys.argv, os.environ['RANK_ID'], __name__, sys.path[0])\nprint('e', file=sys.stderr)\n"
    )
    ended = work(tmp_path, program, "-n", "3")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    device = tmp_path / "logs" / "device1"
    assert (device / "train.log1").read_text() == f"['script.py', '-n', '3'] 1 __main__ {tmp_path}\ne\n"
    assert {"RANK_ID=1", "RANK_SIZE=2", "DEVICE_ID=1"} <= set((device / "env1.log").read_text().splitlines())
    assert (device / "completed").is_file()
    assert not (device / "failure.json").exists()


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("sys.exit(3)", 3),
        ("sys.exit('no data')", 1),
        ("sys.exit(-1)", 255),
        ("sys.exit(256)", 1),
        ("1 / 0", 1),
        ("(", 1),
    ],
)
def test_failing_rank_leaves_its_failure(tmp_path: Path, ending: str, code: int) -> None:
    assert work(tmp_path, f"import sys\n{ending}\n").returncode == code
    device = tmp_path / "logs" / "device1"
    failure = json.loads((device / "failure.json").read_text())
    assert (failure["rank"], failure["exit_code"]) == (1, code)
    assert 'File "script.py", line 2' in failure["traceback"] or "script.py" in failure["traceback"]
    assert "runpy" not in failure["traceback"]
    assert not (device / "completed").exists()


@pytest.mark.parametrize(
    ("ending", "line"),
    [
        ("raise ValueError('one\\ntwo')", "ValueError: one"),
        ("raise ValueError('\\n  two')", "ValueError: two"),
        ("raise ValueError", "ValueError"),
        ("(", "SyntaxError: '(' was never closed"),
        ("raise ValueError('x' * 10_000_000)", f"ValueError: {'x' * 988}"),
        ("sys.exit('one\\ntwo')", "SystemExit: one"),
        ("sys.exit(3)", "SystemExit: 3"),
    ],
)
def test_failure_is_told_in_one_line(tmp_path: Path, ending: str, line: str) -> None:
    work(tmp_path, f"import sys\n{ending}\n")
    record = tmp_path / "logs" / "device1" / "failure.json"
    assert json.loads(record.read_text())["exception"] == line
    assert record.stat().st_size < 32_000


@pytest.mark.parametrize("ending", ["sys.exit()", "sys.exit(0)", "pass"])
def test_exit_code_zero_is_a_good_end(tmp_path: Path, ending: str) -> None:
    assert work(tmp_path, f"import sys\n{ending}\n").returncode == 0
    assert (tmp_path / "logs" / "device1" / "completed").is_file()


def test_traceback_is_in_the_log(tmp_path: Path) -> None:
    work(tmp_path, "raise ValueError('wrong')\n")
    assert "ValueError: wrong" in (tmp_path / "logs" / "device1" / "train.log1").read_text()


@pytest.mark.parametrize(("kind", "stays"), [("ValueError", True), ("MpiParallelError", False)])
def test_only_of_what_is_refused_here_the_cause_is_left_out(tmp_path: Path, kind: str, stays: bool) -> None:
    raised = f"try:\n    1 / 0\nexcept ArithmeticError as error:\n    raise {kind}('x') from error\n"
    work(tmp_path, f"from mpiparallel.errors import MpiParallelError\n{raised}")
    assert ("ZeroDivisionError" in (tmp_path / "logs" / "device1" / "train.log1").read_text()) == stays


def test_rank_that_dies_at_its_exit_is_not_completed(tmp_path: Path) -> None:
    work(tmp_path, "import atexit, os\natexit.register(os._exit, 7)\n")
    assert not (tmp_path / "logs" / "device1" / "completed").exists()


def test_marks_of_an_earlier_job_are_removed(tmp_path: Path) -> None:
    work(tmp_path, "pass\n")
    work(tmp_path, "1 / 0\n")
    assert not (tmp_path / "logs" / "device1" / "completed").exists()
    work(tmp_path, "pass\n")
    assert not (tmp_path / "logs" / "device1" / "failure.json").exists()


def test_other_number_of_ranks_than_the_job_has_is_refused(tmp_path: Path) -> None:
    ended = work(tmp_path, "pass\n", PMI_SIZE="4", MPI_LOCALNRANKS="4")
    assert ended.returncode == 2
    assert ended.stderr.startswith("mpiparallel: error: this rank is one of 4, the job has 2")


def test_rank_is_that_of_the_order_it_is_told() -> None:
    assert in_order(Environment(1, 3, 1, 3, 0), RankOrder((2, 0, 1))).rank == 0
    with pytest.raises(LaunchError, match="has 2 ranks, the job 3"):
        in_order(Environment(1, 3, 1, 3, 0), RankOrder((1, 0)))


def test_device_is_that_of_the_table_or_the_local_rank() -> None:
    table = RankTable((Server("a", (Device(4, "1.1.1.1", 0), Device(6, "1.1.1.2", 1))),))
    for given, device in ((table, "6"), (None, "1")):
        variables = {"DEVICE_ID": "0", "OPENBLAS_CORETYPE": "Haswell"}
        name_rank(variables, Environment(1, 2, 1, 2, 0), given)
        assert variables == {
            "RANK_ID": "1", "RANK_SIZE": "2", "DEVICE_ID": device, "OPENBLAS_CORETYPE": "Haswell"
        }  # fmt: skip


def test_a_worker_with_an_order_that_is_none_is_refused(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        worker.main(["--ranks", "2", "--log-dir", str(tmp_path), "--rank-order", "0,0", "script.py"])
    assert ended.value.code == 2
    assert capfd.readouterr().err.startswith("mpiparallel: error: ")


@pytest.mark.parametrize(("attempt", "is_refused"), [("0", True), ("no number", True), ("1", False)])
def test_a_full_disk_keeps_a_job_from_its_start_but_not_from_a_restart(
    attempt: str, is_refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, variables: Mapping[str, str]) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(worker, "write_environment", full)
    monkeypatch.setenv("MPIPARALLEL_RESTART_COUNT", attempt)
    monkeypatch.setenv(FILE_VARIABLE, "")
    folder = RankFolder(tmp_path, 1)
    if is_refused:
        with pytest.raises(OSError, match="No space left"):
            worker._fill(folder)
    else:
        worker._fill(folder)
        assert os.environ[FILE_VARIABLE] == str(folder.flight)
    assert folder.path.is_dir()


def test_a_folder_for_logs_that_a_host_cannot_make_is_told_with_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "name_rank", lambda *_: None)
    (tmp_path / "file").write_text("")
    settings = worker.WorkerSettings(2, tmp_path / "file", Script("script.py", ()))
    words = (
        f"^--log-dir {tmp_path}/file on {os.uname().nodename}: Not a directory; give a folder that every host can "
        "write, with room in it$"
    )
    with pytest.raises(LaunchError, match=words):
        worker._prepare(settings, Environment(1, 2, 1, 2, 0), None)


def test_a_recording_is_in_memory_where_the_disk_has_no_room(tmp_path: Path) -> None:
    environment = Environment(1, 2, 1, 2, 0)
    folder = RankFolder(tmp_path, 1)
    worker._recorder(folder, environment)
    assert not folder.flight.exists()
    folder.path.mkdir()
    worker._recorder(folder, environment)
    assert Recording.load(folder.flight).rank == 1


@pytest.mark.parametrize(("local_rank", "removes"), [(0, True), (1, False)])
def test_the_first_rank_of_each_host_removes_what_a_killed_mpirun_has_left_there(
    local_rank: int, removes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class BegunError(Exception):
        """Raised where the rank would begin to speak."""

    def begin(log: Path) -> None:
        raise BegunError

    done: list[str] = []
    monkeypatch.setattr(worker, "remove_left_sessions", lambda: done.append("removed"))
    monkeypatch.setattr(worker, "_fill", lambda folder: None)
    monkeypatch.setattr(worker, "_keep_output", lambda folder: (None, None))
    monkeypatch.setattr(worker, "name_rank", lambda *_: None)
    standalone: Any = SimpleNamespace(begin=begin)
    settings = worker.WorkerSettings(4, tmp_path, Script("script.py", ()), standalone=standalone)
    with pytest.raises(BegunError):
        worker._prepare(settings, Environment(2 + local_rank, 4, local_rank, 2, 1), None)
    assert done == ["removed"] * removes
