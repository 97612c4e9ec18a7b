"""Training on real MPI ranks that share the card against one rank on the host; needs a CUDA device."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mpiparallel.communication.threads import run_world
from tests.conformance import patience
from tests.conformance.mpi_launcher import environment, launcher
from tests.gpu.test_training import NETWORKS, WANTED, losses

pytestmark = pytest.mark.gpu

WAYS = ("auto", "staging")
"""CUDA IPC, which ranks that share a card take by themselves, and pinned memory."""


def losses_of_ranks(size, way, name, device_target, root):
    """Return the losses of ranks that are processes."""
    python = Path(sys.executable)
    process = subprocess.Popen(
        [launcher(python), "-n", str(size), str(python), "-m", "tests.gpu.training_ranks", name, device_target],
        env={**environment(root), "MPIPARALLEL_TRANSPORT": way},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    output = patience.communicated(process)[0]
    assert process.returncode == 0, output
    return json.loads(output.splitlines()[-1])


@pytest.mark.parametrize("name", ["Transformer", "ResNet-18"])
@pytest.mark.parametrize(("size", "way"), [(1, "auto"), *((size, way) for size in (2, 4, 8) for way in WAYS)])
def test_ranks_that_share_the_card_train_as_one_on_the_host(size, way, name, pytestconfig) -> None:
    (wanted,) = run_world(1, losses, WANTED.get(name, name), "CPU", False)
    found = losses_of_ranks(size, way, name, "GPU", pytestconfig.rootpath)
    np.testing.assert_allclose(found, wanted, rtol=NETWORKS[name][2])
