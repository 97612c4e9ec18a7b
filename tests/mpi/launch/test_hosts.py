"""Jobs on two hosts: each is this machine under another name, with an environment of its own."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mpiparallel.cluster.rank_table import Device, RankTable, Server
from tests.conformance import patience

ROOT = Path(__file__).parents[3]
OUTER = ("OMPI_", "PMIX_", "PMI_", "SLURM_", "RANK_", "DEVICE_ID", "OPENBLAS_", "MPI_LOCAL")
REMOTE_SHELL = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift; cd /
exec unshare --uts sh -c 'hostname "$0" && exec env -i HOME=/ PATH=/usr/bin:/bin sh -c "$1"' "$host" "$*"
"""
BEGIN = "import os, signal, socket\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\n"


def may_name_hosts() -> bool:
    try:
        return subprocess.run(["unshare", "--uts", "hostname", "node1"], capture_output=True).returncode == 0
    except OSError:
        return False


pytestmark = [pytest.mark.mpi, pytest.mark.skipif(not may_name_hosts(), reason="needs the right to name hosts (root)")]


def run(folder: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(BEGIN + program)
    shell = folder / "remote_shell"
    shell.write_text(REMOTE_SHELL)
    shell.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OUTER)}
    remote = {"PRTE_MCA_plm_ssh_agent": str(shell), "HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": str(shell)}
    return patience.run(
        [sys.executable, "-m", "mpiparallel", "run", *options, "script.py"],
        cwd=folder,
        env=kept | remote | {"PYTHONPATH": str(ROOT), "DATA_PATH": "/data"},
        capture_output=True,
        text=True,
    )


def test_ranks_fill_the_hosts_in_order_and_get_the_environment(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("node1 slots=2\nnode2:1\n")
    program = "print(comm.gather((socket.gethostname(), os.environ['DATA_PATH'], os.environ['DEVICE_ID'])))\n"
    ended = run(tmp_path, program, "-n", "3", "--hostfile", "hosts")
    assert ended.returncode == 0, ended.stderr
    places = ast.literal_eval(ended.stdout)
    assert places == [("node1", "/data", "0"), ("node1", "/data", "1"), ("node2", "/data", "0")]


def test_servers_of_a_rank_table_are_the_hosts(tmp_path: Path) -> None:
    text = (ROOT / "rank_tables" / "rank_table_16pcs.json").read_text().replace("127.0.0.", "node")
    lines = [line for line in text.splitlines(keepends=True) if '"device_id"' not in line or '"device_id": "5"' in line]
    table = (
        "".join(lines).replace('"rank_id": "5"},', '"rank_id": "0"}').replace('"rank_id": "13"},', '"rank_id": "1"}')
    )
    (tmp_path / "table.json").write_text(table)
    program = "print(comm.gather((socket.gethostname(), os.environ['DEVICE_ID'])))\n"
    ended = run(tmp_path, program, "--rank-table", "table.json")
    assert ended.returncode == 0, ended.stderr
    assert ast.literal_eval(ended.stdout) == [("node1", "5"), ("node2", "5")]


def test_ranks_scattered_over_hosts_are_those_of_the_table(tmp_path: Path) -> None:
    devices = {"node1": ((4, 3), (6, 0)), "node2": ((5, 1), (7, 2))}
    servers = tuple(
        Server(name, tuple(Device(number, f"192.1.{number}.1", rank) for number, rank in owned))
        for name, owned in devices.items()
    )
    (tmp_path / "table.json").write_text(RankTable(servers).to_json())
    program = (
        "from mpiparallel.communication import get_rank, init, world\n"
        "init()\nmine = (get_rank(), os.environ['RANK_ID'], socket.gethostname(), os.environ['DEVICE_ID'])\n"
        "assert mine[0] == world.current().rank\n"
        "found = comm.gather(mine)\n"
        "if comm.rank == 0:\n    print(sorted(found), flush=True)\n"
    )
    ended = run(tmp_path, program, "--rank-table", "table.json")
    assert ended.returncode == 0, ended.stderr
    assert ast.literal_eval(ended.stdout) == [
        (rank, str(rank), name, str(number))
        for rank, name, number in sorted(
            (rank, name, number) for name, owned in devices.items() for number, rank in owned
        )
    ]
    assert "RANK_ID=3\n" in (tmp_path / "device3" / "env3.log").read_text()


def test_lost_host_is_never_a_success(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("node1:1\nnode2:1\n")
    killing = "    os.kill(os.getppid(), signal.SIGKILL)\n    signal.pause()\n"
    program = f"comm.Barrier()\nif comm.rank == 1:\n{killing}comm.Barrier()\n"
    ended = run(tmp_path, program, "-n", "2", "--hostfile", "hosts")
    assert ended.returncode not in (0, 2)
    assert "died first" in ended.stderr or "was lost first" in ended.stderr
