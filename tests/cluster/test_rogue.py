"""Another user on the launcher's host, and one on a host of its ranks: what they try against a job, and get."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.hosts import Hosts, Running
from tests.conformance.mpi_launcher import library
from tests.conformance.trainings import rogue
from tests.reliability.counts import record

pytestmark = pytest.mark.cluster

_ROGUE = Path(rogue.__file__)
_ROOT = Path(__file__).parents[2]
_STEPPING = Path(__file__).parent / "stepping.py"
_HEAD, _WORKER = "n0", "n1"
# Where users of one host meet; those of another have one of their own.
_TEMPORARY = "/dev/shm"
_LIMIT = 240.0
_SHORTEST_PIECE = 16


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may write in."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


class Rogues:
    """Another user's processes on the hosts of ``cluster``."""

    def __init__(self, cluster: Hosts, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder

    def begin(self, host: str, action: str, *words: object) -> Running:
        """Start one of them."""
        return self._cluster.begin([sys.executable, "-I", _ROGUE, action, self._folder, *words], host)


def _wait(running: Running, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LIMIT
    while not is_so():
        assert running.process.poll() is None, running.errors
        assert time.monotonic() < deadline, running.errors
        time.sleep(0.02)


def _line(cluster: Hosts) -> tuple[str, bytes]:
    """Return the launcher's port and the job's token, which root may read."""
    pid = min(cluster.processes(_WORKER, "launch.rank.worker"))
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    told = next(line for line in variables if line.startswith(b"MPIPARALLEL_LINE="))
    return told.split(b":")[-2].decode(), told.split(b":")[-1]


def _knows(heard: bytes, token: bytes) -> bool:
    pieces = (token[place : place + _SHORTEST_PIECE] for place in range(len(token) - _SHORTEST_PIECE + 1))
    return any(piece in heard for piece in pieces)


def test_another_user_learns_no_token_and_ends_delays_and_changes_no_job(
    ssh_cluster: Hosts, interpreter: Path, tmp_path: Path, open_folder: Path
) -> None:
    rogues = Rogues(ssh_cluster, open_folder)
    spy, owner = rogues.begin(_HEAD, "spy"), rogues.begin(_WORKER, "own")
    _wait(spy, lambda: (open_folder / "seen").exists())
    words = ["env", f"TMPDIR={_TEMPORARY}", interpreter, "-m", "mpiparallel", "run", "-n", 8]
    job = ssh_cluster.begin(
        [*words, "--hostfile", ssh_cluster.hostfile(2), _STEPPING, open_folder],
        folder=tmp_path,
        environment={"PYTHONPATH": str(_ROOT)},
    )
    _wait(job, lambda: (open_folder / "steps").exists())
    port, token = _line(ssh_cluster)
    tries: list[dict[str, Any]] = []
    for host in (_HEAD, _WORKER):
        ended = rogues.begin(host, "attack", _HEAD, port).ended(_LIMIT)
        assert ended.code == 0, ended.errors
        tries += [json.loads(line) for line in ended.output.splitlines()]
    (open_folder / "enough").touch()
    ended = job.ended(_LIMIT)
    (open_folder / "over").touch()
    assert spy.ended(_LIMIT).code == 0
    tries.append(json.loads(owner.ended(_LIMIT).output))
    print(library(interpreter), [one["attack"] for one in tries])
    assert [one["attack"] for one in tries if not one["done"]] == []
    assert [one["attack"] for one in tries if _knows(bytes.fromhex(one["heard"]), token)] == []
    assert [one["attack"] for one in tries if not one["went_on"]] == []
    assert ended.code == 0, ended.errors
    assert "error" not in ended.errors
    logs = "".join(path.read_text() for path in tmp_path.glob("device*/train.log*"))
    assert logs == ""
    record("tries of another user on the launcher's host and on a rank's", tries=len(tries), succeeded=0)
