"""Stages of a pipeline on real ranks train as one device does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mpiparallel.communication.threads import run_world
from tests.unit.train.staged_networks import Case, trained

pytestmark = pytest.mark.mpi


@pytest.mark.sample
@pytest.mark.parametrize("schedule", ["zb_h1", "gpipe"])
def test_four_ranks_in_two_stages_have_the_losses_of_one_device(mpi_run: Callable[..., str], schedule: str) -> None:
    ((losses, _),) = run_world(1, trained, Case(stages=(0,) * 6, micro_size=0, dropout=0.25, tied=True))
    lines = [line for line in mpi_run(4, "tests.mpi.train.pipeline_ranks", schedule).splitlines() if " holds " in line]
    assert len(lines) == 4
    for line in lines:
        np.testing.assert_allclose([float(loss) for loss in line.split(": ")[1].split()], losses, rtol=0, atol=1e-9)
