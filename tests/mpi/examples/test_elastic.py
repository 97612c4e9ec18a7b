"""The examples of moving: a training that goes on on other ranks, and plain arrays."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conformance.mpi_launcher import interpreters, library

pytestmark = pytest.mark.mpi

EXAMPLES = Path(__file__).parents[3] / "examples"


def losses(output: str) -> dict[tuple[str, str], float]:
    found = re.findall(r"epoch: (\d+) step: (\d+), loss is ([\d.e-]+)", output)
    return {(epoch, step): float(loss) for epoch, step, loss in found}


# Under the first MPI, the page of the example is followed (tests/mpi/test_documents.py), with what it prints.
@pytest.mark.parametrize("mpi_python", interpreters()[-1:], ids=library)
def test_a_training_that_moves_twice_has_the_losses_of_one_that_stays(mpi_run) -> None:
    pytest.importorskip("sklearn.datasets", reason="scikit-learn, which has the digits, is not installed")
    script = EXAMPLES / "elastic" / "train.py"
    moved = mpi_run(8, script, "--epochs", 3)
    assert re.findall(r"(\d) ranks train", moved) == ["6", "8"], moved
    assert moved.count("this rank waits") == 2, moved
    still = losses(mpi_run(8, script, "--epochs", 3, "--still"))
    assert losses(moved) == pytest.approx(still, rel=1e-3)


@pytest.mark.parametrize("ranks", [1, 4])
def test_rows_of_all_ranks_become_columns_of_fewer(ranks, mpi_run) -> None:
    output = mpi_run(ranks, EXAMPLES / "arrays" / "reshard_arrays.py")
    held = "(1000, 200)" if ranks == 4 else "(1000, 600)"
    assert output.count(f"-> {held}") == max(1, ranks - 1), output
    assert output.count("-> None") == (ranks == 4), output
