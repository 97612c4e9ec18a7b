"""A training that goes on when ranks die: with the losses of one that never lost any."""

from __future__ import annotations

import re
import shutil
from contextvars import copy_context
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.train import Callback
from tests.conformance.mpi_launcher import library
from tests.conformance.trainings.surviving_job import run_surviving
from tests.mpi.train.shrink_ranks import STEPS, train

pytestmark = pytest.mark.mpi

PROGRAM = "tests.mpi.train.shrink_ranks"
GOES_ON = re.compile(r"(\d) ranks go on from step (\d+) \((?:slices of replicas|checkpoint ([-\w]+), step (\d+))\)")
COMPILED = re.compile(r"(\d+) traces and (\d+) placements")
# What dies at which of its collectives: in a step, in the recovery from another death, while a checkpoint is saved.
CASES = [
    ("pieces", "kill@3:62", False, [7], "slices of replicas"),
    ("replicas", "kill@0:40,kill@5:80", False, [7, 6], "slices of replicas"),
    ("replicas", "kill@3:60:in,kill@5:63", False, [6], "slices of replicas"),
    pytest.param("replicas", "kill@2:36", True, [7], "slices of replicas", marks=pytest.mark.sample("openmpi")),
    ("cut", "kill@6:200", False, [6], "slices of replicas"),
    ("shards", "kill@3:200", True, [7], "checkpoint"),
    # Of two stages of four the survivors make one of seven.
    ("stages", "kill@6:90", False, [7], "slices of replicas"),
    ("stages", "kill@1:9/F2>1", False, [7], "slices of replicas"),
    ("stages", "kill@6:9/I2", False, [7], "slices of replicas"),
]


class _Kept(Callback):
    def __init__(self) -> None:
        self.by_step: dict[int, float] = {}

    def every_step(self, run_context: Any) -> None:
        parameters = run_context.original_args()
        self.by_step[parameters.cur_step_num] = float(np.asarray(parameters.net_outputs.asnumpy()))


@cache
def undisturbed(kind: str) -> dict[int, float]:
    """The losses by step of one rank, which do not depend on how the network is cut."""
    kept = _Kept()
    copy_context().run(train, kind, [kept])
    return kept.by_step


def losses(notes: Path, number: int) -> dict[int, float]:
    """The losses by step of a rank; of a step that was made twice, the later one."""
    lines = (line.split() for line in (notes / f"losses_{number}").read_text().splitlines())
    return {int(step): float(loss) for step, loss, _ in lines}


@pytest.fixture
def openmpi(mpi_python: Path) -> Path:
    """The interpreter of Open MPI."""
    if library(mpi_python) != "openmpi":
        pytest.skip("MPICH ends the job when a rank dies")
    return mpi_python


@pytest.mark.parametrize(("kind", "chaos", "saves", "counts", "source"), CASES)
def test_survivors_have_the_losses_of_a_training_that_nobody_left(
    openmpi: Path, tmp_path: Path, kind: str, chaos: str, saves: bool, counts: list[int], source: str
) -> None:
    folder = [tmp_path / "checkpoints"] if saves else []
    code, output = run_surviving(openmpi, 8, PROGRAM, kind, tmp_path, *folder, chaos=chaos)
    found = GOES_ON.findall(output)
    assert code == 0, output
    assert [int(count) for count, *_ in found] == counts, output
    assert source in output, output
    assert "a survivor joins" not in output
    dead = {int(fault.partition(":")[0]) for fault in chaos.replace("kill@", "").split(",")}
    ended = [int(number) for number in re.findall(rf"number (\d) ends as rank . of . after {STEPS} steps", output)]
    assert len(ended) == counts[-1], output
    assert not dead & set(ended), output
    compiled = {(int(traces), int(places)) for traces, places in COMPILED.findall(output)}
    # Traced once, and placed at the start and for each number of ranks that they go on as. Where 7 cannot have the
    # network, who leads has tried that too, and one of them trains no more; so too where the second death comes later.
    once = {(1, 1 + len(counts))}
    if kind == "cut":
        assert compiled == {(1, 1), (1, 2), (1, 3)}, output
    elif ":in," in chaos:
        assert once <= compiled <= once | {(1, 2 + len(counts))}, output
    else:
        assert compiled == once, output
    wanted = undisturbed(kind if kind in ("pieces", "stages") else "replicas")
    for number in ended:
        by_step = losses(tmp_path, number)
        assert list(by_step) == list(range(1, STEPS + 1))
        np.testing.assert_allclose(list(by_step.values()), list(wanted.values()), rtol=1e-9)


def test_what_goes_on_from_a_checkpoint_is_what_fewer_ranks_would_resume(openmpi: Path, tmp_path: Path) -> None:
    shrunk, resumed = tmp_path / "shrunk", tmp_path / "resumed"
    shrunk.mkdir()
    resumed.mkdir()
    code, output = run_surviving(openmpi, 8, PROGRAM, "shards", shrunk, shrunk / "saved", chaos="kill@7:190")
    assert code == 0, output
    _, _, name, step = GOES_ON.findall(output)[0]
    for path in (shrunk / "saved").rglob(f"{name}.*"):
        target = resumed / "saved" / path.relative_to(shrunk / "saved")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    code, output = run_surviving(openmpi, 7, PROGRAM, "shards", resumed, resumed / "saved")
    assert code == 0, output
    there, here = losses(shrunk, 0), losses(resumed, 0)
    assert list(here) == list(range(int(step) + 1, STEPS + 1))
    np.testing.assert_allclose([there[one] for one in here], list(here.values()), rtol=1e-9)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("shards", "there is no checkpoint; give Model.train a ModelCheckpoint"),
        ("fixed", "MatMul"),
    ],
)
def test_a_training_that_cannot_go_on_says_why_and_fails(openmpi: Path, tmp_path: Path, kind: str, why: str) -> None:
    code, output = run_surviving(openmpi, 8, PROGRAM, kind, tmp_path, chaos="kill@4:90")
    said = next((line for line in output.splitlines() if "rank 4 has died, and the others cannot go on" in line), "")
    assert code != 0, output
    assert why in said, output
    assert "start the job again" in said, output
