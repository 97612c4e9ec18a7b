"""A training that a fault strikes on purpose, and that the launcher restarts, ends as if nothing had struck it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mpiparallel.cluster.fault_plan import FaultPlan
from tests.conformance import patience
from tests.conformance.mpi_launcher import interpreters, library
from tests.reliability.counts import count, record
from tests.reliability.launched_job import LaunchedJob
from tests.reliability.test_resumed_training import check_equal

pytestmark = pytest.mark.mpi

RANKS = 2
MODULE = "tests.reliability.ranks.training_ranks"
WATCHDOG = 3
RESTARTS = ("--on-failure", "restart:2")
SAVED_AT_ONCE = 1
# From here the first seeds draw a crash, a collective of another dtype, and an endless loop.
FIRST_SEED = 19
# The collectives of a training of which all kinds strike after its first checkpoint and before its last.
PLAN = "seed={},collectives=60-220,folder={}"


def seeds() -> list[Any]:
    found = []
    for interpreter in interpreters():
        few = {"mpich": 1, "openmpi": 1}[library(interpreter)]
        numbers = range(FIRST_SEED, FIRST_SEED + count(60, few))
        found += [pytest.param(interpreter, seed, id=f"{library(interpreter)}-seed{seed}") for seed in numbers]
    return found


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a training that nothing struck has left; both MPI libraries sum two ranks alike."""
    notes = tmp_path_factory.mktemp("left alone")
    trained(interpreters()[0], notes)
    return notes


def trained(interpreter: Path, notes: Path, *options: str) -> str:
    """Train to the end; return what all ranks of all attempts have printed."""
    (notes / "ranks").mkdir()
    arguments = notes / "checkpoints", SAVED_AT_ONCE
    with LaunchedJob(interpreter, RANKS, MODULE, notes, *arguments, options=options) as job:
        found = job.end()
    assert found.code == 0, found.said
    assert not found.remain, f"{found.left} processes were left, and {found.remain} are still there"
    return "".join(path.read_text(errors="replace") for path in (notes / "logs").glob("device*/train.log*"))


@pytest.mark.parametrize(("interpreter", "seed"), seeds())
def test_training_that_a_drawn_fault_strikes_ends_as_if_nothing_had_been(
    interpreter: Path, seed: int, left_alone: Path, tmp_path: Path
) -> None:
    text = PLAN.format(seed, tmp_path / "checkpoints")
    (fault,) = FaultPlan.parse(text).faults(RANKS)
    watchdog = "--watchdog", str(patience.stretched(WATCHDOG))
    printed = trained(interpreter, tmp_path, *RESTARTS, *watchdog, "--chaos", text)
    assert printed.count(f"mpiparallel: chaos: {fault}") == 1, f"{fault} did not strike once:\n{printed}"
    check_equal(left_alone, tmp_path)
    record(f"training that a fault strikes on purpose: {library(interpreter)}, {fault.kind}", trainings=1, wrong=0)


def test_plan_that_cannot_be_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "ranks").mkdir()
    arguments = tmp_path / "checkpoints", SAVED_AT_ONCE
    options = ("--chaos", "kill@2:5")
    with LaunchedJob(interpreters()[0], RANKS, MODULE, tmp_path, *arguments, options=options) as job:
        found = job.end()
    assert (found.code, list((tmp_path / "ranks").iterdir())) == (2, [])
    assert "there is no rank 2 among 2; name one from 0 to 1" in found.first_words
