"""Jobs that sbatch is given one of the shipped scripts for, on the nodes of a SLURM cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from tests.cluster.hosts import Hosts
from tests.conformance.mpi_launcher import library
from tests.conformance.patience import Patience

_SCRIPTS = Path(__file__).parents[2] / "launchers"
_TRAINING = Path(__file__).parent / "training.py"
PMI = {"openmpi": "pmix", "mpich": "pmi2"}
_FINAL = ("COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "CANCELLED")
_NAP_SECONDS = 0.2
_NAPS_FOR_A_LOOK = 10


def losses(log: str) -> dict[int, float]:
    """Return the loss of each step that a log tells of; a step that was done twice has one loss, or the test fails."""
    found: dict[int, float] = {}
    for line in log.splitlines():
        if line.startswith("step "):
            _, number, _, loss = line.split()
            value = float.fromhex(loss)
            assert found.setdefault(int(number), value) == pytest.approx(value, rel=1e-9, abs=0)
    return found


@dataclass
class Batch:
    """A training on all three nodes, ``tasks`` ranks on each, that ``launcher`` starts: run, pmix or pmi2."""

    cluster: Hosts
    folder: Path
    name: str
    number: str

    @classmethod
    def submitted(
        cls,
        cluster: Hosts,
        interpreter: Path,
        folder: Path,
        script: str,
        launcher: str,
        *options: str,
        tasks: int = 1,
        pause: float = 0.0,
        training: Sequence[object] = (_TRAINING,),
        environment: Mapping[str, str] | None = None,
    ) -> Batch:
        """Give a script of ``launchers`` to sbatch; its training pauses for ``pause`` seconds in each step.

        ``training`` is what is trained by, with its options.
        """
        name = f"{library(interpreter)}_{launcher}"
        allocation = ["--nodes=3", f"--ntasks-per-node={tasks}", "--parsable", f"--job-name={name}", "--output=%x.out"]
        words = [_SCRIPTS / script, *training, "--pause", pause, folder / f"checkpoints_{name}"]
        variables = {"PYTHON": str(interpreter), "MPIPARALLEL_LAUNCHER": launcher, **(environment or {})}
        ended = cluster.run(["sbatch", *allocation, *options, *words], folder=folder, environment=variables)
        assert ended.code == 0, ended.errors
        return cls(cluster, folder, name, ended.output.strip())

    @property
    def output(self) -> str:
        """What the job has printed so far."""
        path = self.folder / f"{self.name}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def logs(self, restarts: int) -> Path:
        """The folder of logs of one start of the job."""
        return self.folder / f"{self.name}-{self.number}.{restarts}"

    def state(self) -> dict[str, str]:
        """What SLURM says of the job."""
        words = self.cluster.run(["scontrol", "show", "job", self.number]).output.split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so; the test fails if the job ends without it, or if it takes for ever."""
        waiting = Patience()
        for number in count(1):
            # SLURM is asked before: what is so when it says that the job has ended may be so a moment earlier.
            is_over = number % _NAPS_FOR_A_LOOK == 0 and self.state()["JobState"] in _FINAL
            if is_so():
                return
            if is_over or not waiting.is_left():
                pytest.fail(f"{self.name} is not as far as it should be: {self.state()}\n{self.output}")
            time.sleep(_NAP_SECONDS)

    def is_at(self, step: int) -> bool:
        """Return whether its training has done ``step``."""
        return step in losses(self.output)

    def ended(self) -> dict[str, str]:
        """Wait for its end, and return what SLURM says then."""
        self.wait_until(lambda: self.state()["JobState"] in _FINAL)
        return self.state()


def preempt_each_at(step: int, batches: Iterable[Batch]) -> None:
    """Send each job SIGUSR1 once its training has done ``step``, in the order in which they get there."""
    left = list(batches)
    while left:
        left[0].wait_until(lambda: any(batch.is_at(step) for batch in left))
        for batch in [batch for batch in left if batch.is_at(step)]:
            batch.cluster.run(["scancel", "--signal=USR1", "--batch", batch.number])
            left.remove(batch)
