"""What the tests of this folder stand on: hosts that are apart, fail as told, and leave nothing behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.hosts import Hosts
from tests.conformance import patience

pytestmark = pytest.mark.cluster

_HOLDING = """
import os, signal, sys
from pathlib import Path
from tests.cluster.hosts import Hosts
hosts = Hosts(Path(sys.argv[1]), Path(sys.argv[2]), ["n0", "n1"])
hosts.begin(["sleep", "600"], "n1")
print(os.getpid(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def _namespaces() -> set[str]:
    return set(subprocess.run(["ip", "netns", "list"], stdout=subprocess.PIPE, text=True, check=True).stdout.split())


def test_hosts_reach_each_other_by_ssh_and_share_nothing_but_files(ssh_cluster: Hosts) -> None:
    asked = "hostname; echo $HOME $TMPDIR; ps -e | wc -l; touch /dev/shm/of_n0 $TMPDIR/of_n0; ls /dev/shm $TMPDIR"
    here = ssh_cluster.run(["sh", "-c", asked]).output.split()
    there = ssh_cluster.run(["ssh", "n3", asked.replace("of_n0", "of_n3")]).output.split()
    assert (here[0], there[0]) == ("n0", "n3")
    assert here[1:3] == there[1:3]
    assert max(int(here[3]), int(there[3])) < 10
    assert {"of_n0", "of_n3"} & set(here) == {"of_n0"}
    assert {"of_n0", "of_n3"} & set(there) == {"of_n3"}


def test_a_host_crashes_starts_again_and_can_be_unplugged(ssh_cluster: Hosts) -> None:
    sleeping = ssh_cluster.begin(["sleep", "600"], "n2")
    while not ssh_cluster.processes("n2", "sleep 600"):
        assert sleeping.process.poll() is None
    ssh_cluster.crash("n2")
    assert sleeping.ended(10).code
    patience.wait_until(lambda: not ssh_cluster.processes("n2"))
    ssh_cluster.start("n2")
    assert ssh_cluster.run(["ssh", "n2", "hostname"]).output == "n2\n"
    ssh_cluster.cut("n2")
    assert ssh_cluster.run(["ssh", "-o", "ConnectTimeout=1", "n2", "hostname"]).code == 255
    ssh_cluster.heal("n2")
    assert ssh_cluster.run(["ssh", "n2", "hostname"]).output == "n2\n"


def test_a_signal_is_handed_on_to_what_runs_inside_a_host(ssh_cluster: Hosts) -> None:
    running = ssh_cluster.begin(["sh", "-c", "trap 'exit 7' USR1; echo set; while :; do sleep .1; done"], "n1")
    while "set" not in running.output:
        assert running.process.poll() is None
        time.sleep(0.01)
    running.process.send_signal(signal.SIGUSR1)
    assert running.ended(10).code == 7


@pytest.mark.parametrize("script", ["ssh_cluster.sh", "slurm_cluster.sh"])
def test_nothing_is_left_of_a_cluster_whose_tests_were_killed(
    script: str, ssh_cluster: Hosts, slurm_cluster: Hosts, tmp_path: Path
) -> None:
    killed = subprocess.Popen(
        [sys.executable, "-c", _HOLDING, Path(__file__).parent / "virtual_hosts" / script, tmp_path],
        stdout=subprocess.PIPE,
        text=True,
    )
    pid = patience.communicated(killed)[0].strip()
    assert killed.returncode == -signal.SIGKILL
    # Those of other clusters, which other tests hold meanwhile, come and go.
    patience.wait_until(lambda: not any(pid in name for name in _namespaces()) and not (tmp_path / "hosts").exists())
    assert not [path.name for path in Path("/etc/netns").iterdir() if pid in path.name]
    patience.wait_until(lambda: not _processes_of(tmp_path), lambda: "\n".join(_processes_of(tmp_path)))


def _processes_of(folder: Path) -> list[str]:
    listed = subprocess.run(["ps", "-eo", "args"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [line for line in listed.splitlines() if str(folder) in line]


def test_the_nodes_of_slurm_run_what_is_asked_of_them(slurm_cluster: Hosts) -> None:
    assert sorted(slurm_cluster.run(["srun", "-N3", "-n3", "hostname"]).output.split()) == ["n1", "n2", "n3"]
