"""Trainings on CuPy that are resumed, or moved to other ranks, against those on the host; needs a CUDA device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mpiparallel import context
from mpiparallel.communication.threads import run_world
from tests.conformance.trainings import moving_training, resumed_training
from tests.conformance.trainings.moving_training import SHARDS, Losses, ReshardAt, dataset, make_model

pytestmark = pytest.mark.gpu

LEGS = {2: {"ranks": 2, "mode": "bounded"}, 5: {"ranks": 4, "digest": True}}
DEVICES = [("GPU", "GPU"), ("CPU", "GPU"), ("GPU", "CPU")]


def check_resumed(name, devices, folder):
    """Train on the first device, go on from its checkpoints on the second, and compare with one on the host."""
    case = replace(resumed_training.CASES[name], dtype=np.float64)
    whole = resumed_training.leg(case, None)
    first, second = (replace(case, device_target=device) for device in devices)
    resumed_training.leg(first, folder, case.steps // 2)
    for (_, wanted, _, _), (_, found, _, step) in zip(whole, resumed_training.leg(second, folder), strict=True):
        assert step == case.steps
        assert len(found) == case.steps - case.steps // 2
        for number, loss in found.items():
            np.testing.assert_allclose(np.frombuffer(loss), np.frombuffer(wanted[number]), rtol=1e-9)


@pytest.mark.parametrize("devices", DEVICES, ids=" to ".join)
@pytest.mark.parametrize("name", ["1 rank", "4 ranks, cut, optimizer shards"])
def test_a_training_goes_on_from_the_checkpoints_of_either_device(name, devices, tmp_path) -> None:
    check_resumed(name, devices, tmp_path)


def moved(_communicator):
    context.set_context(device_target="GPU")
    model, losses = make_model(4, **SHARDS), Losses()
    model.train(2, dataset(), [losses, ReshardAt(model, LEGS)], dataset_sink_mode=False)
    return losses.by_step


def test_a_training_that_moves_to_other_ranks_has_the_losses_of_one_on_the_host() -> None:
    (wanted,) = run_world(1, lambda _: moving_training.unmoved_losses())
    found = {}
    for losses in run_world(4, moved):
        found |= losses
    assert sorted(found) == list(range(1, 9))
    np.testing.assert_allclose([found[step] for step in sorted(found)], [wanted[step] for step in sorted(found)], 1e-9)
