"""A job on a host that lacks something: it runs, or it is refused by one line with the cause and what mends it."""

from __future__ import annotations

import os
import re
import resource
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from mpiparallel.cluster.exit_codes import COMPLETED, REFUSED
from tests.conformance.mpi_launcher import library

pytestmark = pytest.mark.mpi

ROOT = Path(__file__).parents[3]
SIZE = 2
SECONDS = 300
SECRET = "s3cr3t"
PROGRAM = """
import argparse
from mpiparallel.communication import init, world
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.parse_args()
init()
world.current().barrier()
"""


def run(
    interpreter: Path, folder: Path, *words: str, before: tuple[str, ...] = (), files: int = 0, **variables: str | None
) -> tuple[int, list[str]]:
    """Run a job of ``PROGRAM``; return its exit code and what the launcher has said, without what ranks print."""
    (folder / "train.py").write_text(PROGRAM)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMPI_")}
    environment |= {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    environment |= {name: value for name, value in variables.items() if value is not None}
    for name in (name for name, value in variables.items() if value is None):
        environment.pop(name, None)

    def limit() -> None:
        if files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    ended = subprocess.run(
        [*before, str(interpreter), "-m", "mpiparallel", "run", "-n", str(SIZE), "--log-dir", "logs", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        preexec_fn=limit,
    )
    return ended.returncode, [line for line in ended.stderr.splitlines() if line.startswith("mpiparallel: ")]


def test_a_job_needs_no_home(interpreter: Path, tmp_path: Path) -> None:
    code, said = run(interpreter, tmp_path, "train.py", HOME=None)
    assert code == COMPLETED, said


@pytest.mark.parametrize(
    ("words", "files", "line"),
    [
        (("train.py",), 24, r"24 open files are allowed .* 2 ranks need 40; ulimit -n 4096"),
        (("--hostfile", "absent", "train.py"), 0, r"absent: cannot be read .*; give the path of a hostfile"),
        (("train.py", "--lr", "x"), 0, r"rank \d of 2 failed first: train.py: argument --lr: invalid float .*'x'"),
    ],
    ids=["ulimit", "hostfile", "argparse"],
)
def test_it_is_refused_in_one_line(
    words: tuple[str, ...],
    files: int,
    line: str,
    interpreter: Path,
    tmp_path: Path,
) -> None:
    code, said = run(interpreter, tmp_path, *words, files=files)
    errors = [one for one in said if one.startswith("mpiparallel: error: ")]
    assert code == REFUSED
    assert len(errors) == 1
    assert re.fullmatch(f"mpiparallel: error: {line}", errors[0])


@pytest.mark.parametrize("folder", ["/proc", "/x" * 2500], ids=["read-only", "too long"])
def test_a_folder_for_temporary_files_that_mpirun_cannot_use_is_named(
    folder: str, interpreter: Path, tmp_path: Path
) -> None:
    code, said = run(interpreter, tmp_path, "train.py", TMPDIR=folder)
    if library(interpreter) == "mpich":
        # Its mpiexec needs none.
        assert code == COMPLETED, said
        return
    assert (code, len(said)) == (REFUSED, 1)
    assert re.fullmatch(rf'mpiparallel: error: TMPDIR="{folder[:9]}.*; mpirun keeps .*: export TMPDIR=DIR, .*', said[0])


@pytest.mark.skipif(bool(os.geteuid()) or shutil.which("unshare") is None, reason="mounts a file system of its own")
def test_too_little_shared_memory_is_named(interpreter: Path, tmp_path: Path) -> None:
    mount = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"', "sh")
    code, said = run(interpreter, tmp_path, "train.py", before=mount)
    if library(interpreter) == "openmpi":
        # It maps files of its session instead.
        assert code == COMPLETED, said
        return
    assert (code, len(said)) == (REFUSED, 1)
    assert "/dev/shm has 1.0 MiB free; 2 ranks of MPICH need 2 MiB there to start" in said[0]
    assert "mount -o remount,size=" in said[0]


def test_the_environment_of_a_rank_is_logged_for_its_user_alone_and_without_secrets(
    interpreter: Path, tmp_path: Path
) -> None:
    code, said = run(interpreter, tmp_path, "train.py", HUB_TOKEN=SECRET, STORE_URL=f"https://me:{SECRET}@host")
    assert code == COMPLETED, said
    for rank in range(SIZE):
        log = tmp_path / "logs" / f"device{rank}" / f"env{rank}.log"
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
        told = log.read_text().splitlines()
        assert {"HUB_TOKEN=(left out)", "STORE_URL=https://(left out)@host", f"RANK_ID={rank}"} <= set(told)
    texts = [path.read_bytes() for path in (tmp_path / "logs").rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in text for text in texts)
