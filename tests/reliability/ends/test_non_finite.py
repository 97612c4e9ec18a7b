"""A number that is none, on one rank in one step: named, and acted upon as the policy says, on all ranks alike."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mpiparallel.checkpoint.catalogue import catalogue
from tests.conformance import patience
from tests.conformance.mpi_launcher import environment, launcher, library
from tests.reliability.counts import count, record
from tests.reliability.mpi_job import ROOT
from tests.reliability.ranks.non_finite_ranks import BATCH, RANKS, ROWS, STEPS

pytestmark = pytest.mark.mpi

MODULE = "tests.reliability.ranks.non_finite_ranks"
RATE, MOMENTUM, SAVED_EVERY = 0.05, 0.9, 3
FIRST_WEIGHT = "0.weight"
# Every test run tries each case with one of the libraries.
CASES = {
    ("batch", "stop"): "mpich",
    ("batch", "skip"): "openmpi",
    ("batch", "rollback"): "mpich",
    ("weight", "stop"): "mpich",
    ("weight", "rollback"): "openmpi",
}


@pytest.mark.parametrize(("what", "policy"), CASES)
def test_what_one_rank_finds_spoilt_in_one_step_is_named_and_acted_upon(
    interpreter: Path, what: str, policy: str, tmp_path: Path
) -> None:
    tries = count(10, 1 if CASES[what, policy] == library(interpreter) else 0)
    if not tries:
        pytest.skip("only make soak tries all cases with each library")
    chance = random.Random(f"{library(interpreter)} {what} {policy}")
    for number in range(tries):
        # The first commit comes before.
        step, victim = chance.randint(SAVED_EVERY + 1, STEPS), chance.randrange(RANKS)
        folder = tmp_path / str(number)
        code, output = run(interpreter, folder, policy, what, step, victim)
        assert (code != 0) == (policy == "stop"), output
        check_words(output, what, step, victim, is_told_once=policy != "stop")
        commits = {entry.manifest.training["step"] for entry in catalogue(folder / "saved") if entry.manifest}
        last = (step - 1) // SAVED_EVERY * SAVED_EVERY
        if policy == "stop":
            assert commits == set(range(SAVED_EVERY, last + 1, SAVED_EVERY)), output
            continue
        kept = {"skip": range(1, step), "rollback": range(1, last + 1)}[policy]
        expected = descended(weights_in(folder, "start"), [*kept, *range(step + 1, STEPS + 1)])
        for name, array in weights_in(folder, "end").items():
            np.testing.assert_allclose(array, expected[name], rtol=1e-3, atol=1e-5, err_msg=name)
    record(f"number spoilt on one rank: {library(interpreter)}, {what}, {policy}", tries=tries, named=tries, wrong=0)


def check_words(output: str, what: str, step: int, victim: int, is_told_once: bool) -> None:
    """See that step, rank and parameter are named, once for all ranks where the training goes on."""
    place = f"step {step} (epoch 1, step {step})"
    told = {line[line.index(place) :] for line in output.splitlines() if place in line}
    # The tracebacks of ranks that end together run into each other.
    assert len(told) == 1 or (told and not is_told_once), output
    words = max(told, key=len)
    assert f"the loss is not finite on rank {victim};" in words
    assert f"not finite are the gradients of '{FIRST_WEIGHT}' and 3 more" in words
    where = f"the weight '{FIRST_WEIGHT}' already held" if what == "weight" else "input 0 of the batch holds"
    assert f"{where} inf or nan on rank {victim};" in words


def run(interpreter: Path, folder: Path, *args: object) -> tuple[int, str]:
    folder.mkdir()
    done = patience.run(
        [launcher(interpreter), "-n", str(RANKS), str(interpreter), "-m", MODULE, str(folder), *map(str, args)],
        cwd=folder,
        env=environment(ROOT),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return done.returncode, done.stdout


def weights_in(folder: Path, moment: str) -> dict[str, np.ndarray]:
    """Return the weights of rank 0 at the start or the end; those of the others must be the same."""
    found = []
    for rank in range(RANKS):
        with np.load(folder / f"{moment}_{rank}.npz") as file:
            found.append({name: file[name] for name in file})
    for other in found[1:]:
        assert {name: array.tobytes() for name, array in other.items()} == {
            name: array.tobytes() for name, array in found[0].items()
        }
    return found[0]


def descended(start: dict[str, np.ndarray], steps: list[int]) -> dict[str, np.ndarray]:
    """Return the weights after these steps of plain descent with momentum, in NumPy, from the weights ``start``."""
    numbers = np.random.default_rng(5)
    x, y = numbers.normal(size=(ROWS, 8)).astype("f4"), numbers.normal(size=(ROWS, 3)).astype("f4")
    weights = {name: array.astype("f8") for name, array in start.items()}
    moments = {name: np.zeros_like(array) for name, array in weights.items()}
    for step in steps:
        rows = slice((step - 1) * BATCH, step * BATCH)
        hidden = np.tanh(x[rows] @ weights[FIRST_WEIGHT].T + weights["0.bias"])
        error = 2 * (hidden @ weights["2.weight"].T + weights["2.bias"] - y[rows]) / y[rows].size
        inner = (error @ weights["2.weight"]) * (1 - hidden**2)
        gradients = {
            FIRST_WEIGHT: inner.T @ x[rows],
            "0.bias": inner.sum(0),
            "2.weight": error.T @ hidden,
            "2.bias": error.sum(0),
        }
        for name, gradient in gradients.items():
            moments[name] = MOMENTUM * moments[name] + gradient
            weights[name] -= RATE * moments[name]
    return weights
