"""Ranks that a shell starts one by one on each of two hosts, as MindSpore's cluster script does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.hosts import Hosts, Running
from tests.conformance.trainings.shell_loop import CLUSTER, codes, logs, write_table

pytestmark = pytest.mark.cluster

_PROGRAM = Path(__file__).parents[1] / "conformance" / "trainings" / "hand_started_ranks.py"
_ROOT = Path(__file__).parents[2]
_RANKS = 4
_HERE = 2
_LIMIT = 90.0


def _start(
    cluster: Hosts,
    interpreter: Path,
    folder: Path,
    host: str,
    first: int,
    table: Path,
    count: int = _HERE,
    **variables: str,
) -> Running:
    """Start the ranks from ``first`` on that ``host`` has, in a folder of its own."""
    own = folder / f"on_{host}"
    own.mkdir()
    # Of its own, too: another host may be reading its script.
    script = own / "cluster.sh"
    script.write_text(CLUSTER)
    return cluster.begin(
        ["sh", script, _RANKS, first, count, interpreter, "-m", "pytest", "-s", _PROGRAM],
        host=host,
        folder=own,
        environment={"RANK_TABLE_FILE": str(table), "PYTHONPATH": str(_ROOT), "OPENBLAS_NUM_THREADS": "1", **variables},
    )


def _gathered(folder: Path) -> Path:
    """Return one folder with the folders of all ranks, wherever their hosts have put them."""
    for path in folder.glob("on_n*/device*"):
        (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.parametrize("names", [("n0", "n1"), ("n1", "n0")], ids=["in order", "turned"])
def test_the_ranks_that_two_hosts_start_are_one_job(
    ssh_cluster: Hosts, interpreter: Path, tmp_path: Path, names: tuple[str, str]
) -> None:
    table = write_table(tmp_path / "table.json", [(name, _HERE) for name in names])
    scripts = [
        _start(ssh_cluster, interpreter, tmp_path, name, _HERE * place, table) for place, name in enumerate(names)
    ]
    for script in scripts:
        script.ended(_LIMIT)
    folder = _gathered(tmp_path)
    found = logs(folder, _RANKS)
    assert codes(folder, _RANKS) == [0] * _RANKS, found
    for rank in range(_RANKS):
        told = (folder / f"device{rank}" / "found").read_text().split()
        assert told == [str(rank), str(_RANKS), "10", names[rank // _HERE], str(rank % _HERE)]
    assert ssh_cluster.left_after(10, "mpiparallel") == {}


def test_a_rank_that_is_killed_on_another_host_ends_all(ssh_cluster: Hosts, interpreter: Path, tmp_path: Path) -> None:
    table = write_table(tmp_path / "table.json", [("n0", 1), ("n1", 1), ("n2", 2)])
    scripts = [
        _start(ssh_cluster, interpreter, tmp_path, name, first, table, count=count, FAULT="kill")
        for name, first, count in (("n0", 0, 1), ("n1", 1, 1), ("n2", 2, 2))
    ]
    for script in scripts:
        script.ended(_LIMIT)
    folder = _gathered(tmp_path)
    found = logs(folder, _RANKS)
    ended = codes(folder, _RANKS)
    # MPI itself may end a rank that loses its neighbour, before the word of what has happened is there.
    assert ended[1] == 137, found
    assert all(ended), found
    assert ended[0] != 1 or "error: rank 1 of 4 " in found[0]
    assert ssh_cluster.left_after(10, "mpiparallel") == {}


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        (("n1", "n0"), "puts rank 0 on n1, which is not this host (n0)"),
        (("n0", "n9"), "could not be made one job"),
    ],
    ids=["swapped", "unknown"],
)
def test_hosts_that_cannot_be_the_tables_are_refused_with_the_command(
    ssh_cluster: Hosts, interpreter: Path, tmp_path: Path, servers: tuple[str, str], words: str
) -> None:
    table = write_table(tmp_path / "table.json", [(name, _HERE) for name in servers])
    _start(ssh_cluster, interpreter, tmp_path, "n0", 0, table).ended(_LIMIT)
    folder = _gathered(tmp_path)
    assert codes(folder, _HERE) == [2, 2]
    assert words in logs(folder, 1)[0]


def test_a_host_whose_ssh_does_not_answer_is_refused_on_all_that_wait(
    ssh_cluster: Hosts, interpreter: Path, tmp_path: Path
) -> None:
    table = write_table(tmp_path / "table.json", [("n0", _HERE), ("n3", _HERE)])
    ssh_cluster.crash("n3")
    _start(ssh_cluster, interpreter, tmp_path, "n0", 0, table).ended(_LIMIT)
    folder = _gathered(tmp_path)
    for log in logs(folder, _HERE):
        assert "could not be made one job" in log
        assert f"mpiparallel run --rank-table {table} -m pytest -s " in log


def test_ranks_of_another_host_that_do_not_come_are_named(
    ssh_cluster: Hosts, interpreter: Path, tmp_path: Path
) -> None:
    table = write_table(tmp_path / "table.json", [("n0", _HERE), ("n1", _HERE)])
    _start(ssh_cluster, interpreter, tmp_path, "n0", 0, table, HCCL_CONNECT_TIMEOUT="5").ended(_LIMIT)
    folder = _gathered(tmp_path)
    assert codes(folder, _HERE) == [2, 2]
    for log in logs(folder, _HERE):
        assert "was not started on n1 within 5 s" in log
