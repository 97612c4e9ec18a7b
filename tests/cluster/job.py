"""A job on the hosts of a cluster that goes on until something happens to it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.cluster.hosts import Hosts, Running
from tests.conformance.mpi_launcher import library
from tests.conformance.patience import Patience

_SCRIPT = Path(__file__).parent / "turning.py"
RANKS = 8


class Job:
    """Eight ranks on four hosts, or fewer, two on each in order, under ``mpiparallel run`` with ``options``."""

    def __init__(
        self,
        cluster: Hosts,
        interpreter: Path,
        folder: Path,
        script: Sequence[object],
        *options: str,
        environment: Mapping[str, str] | None = None,
        ranks: int = RANKS,
    ) -> None:
        self.cluster = cluster
        self.folder = folder
        self.mpi = library(interpreter)
        launcher = [interpreter, "-m", "mpiparallel", "run", "-n", ranks, "--hostfile", cluster.hostfile(2)]
        self.running: Running = cluster.begin([*launcher, *options, *script], "n0", environment, folder)

    @classmethod
    def turning(cls, cluster: Hosts, interpreter: Path, folder: Path, *options: str) -> Job:
        """Start ranks that all-reduce for ever, and wait until all do; turning.py says what they heed."""
        job = cls(cluster, interpreter, folder, [_SCRIPT, folder], *options)
        job.wait_until(lambda: all((folder / f"turning_{rank}").exists() for rank in range(RANKS)))
        return job

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so; the test fails if the job ends before, or it takes for ever."""
        waiting = Patience()
        while not is_so():
            if self.running.process.poll() is not None or not waiting.is_left():
                self.cluster.restore()
                pytest.fail(f"the job is not as far as it should be:\n{self.running.output}\n{self.running.errors}")
            time.sleep(0.05)

    def kill_launcher(self, number: int) -> None:
        """Send a signal to mpiparallel itself."""
        (pid,) = self.cluster.processes("n0", "mpiparallel run")
        os.kill(pid, number)

    def kill_daemon(self, host: str) -> None:
        """Kill what mpirun runs on ``host`` to start ranks there: Open MPI's is two processes."""
        pids = self.cluster.processes(host, "prted" if self.mpi == "openmpi" else "hydra_pmi_proxy")
        assert pids
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def kill_rank(self, rank: int) -> None:
        """Kill a rank, which is told from its neighbour by its environment."""
        name = "OMPI_COMM_WORLD_RANK" if self.mpi == "openmpi" else "PMI_RANK"
        wanted = f"{name}={rank}".encode()
        pids = self.cluster.processes(f"n{rank // 2}", "launch.rank.worker")
        (pid,) = (pid for pid in pids if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
        os.kill(pid, signal.SIGKILL)
