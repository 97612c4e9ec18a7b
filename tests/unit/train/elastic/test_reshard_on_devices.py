"""Model.reshard between GPUs that are not there: the training goes on as on one host that never moved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel import context
from mpiparallel.communication.threads import run_world
from tests.conformance.hidden_arrays.ranks import gpus_of_their_own, travel_by
from tests.conformance.hidden_arrays.stream import DEVICE
from tests.conformance.trainings.moving_training import (
    CUTS,
    SHARDS,
    Losses,
    Network,
    ReshardAt,
    dataset,
    make_model,
    state,
    unmoved_losses,
)

LEGS = {2: {"ranks": 2, "mode": "bounded"}, 5: {"ranks": 4, "digest": True}}


@pytest.fixture
def device(tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    with gpus_of_their_own(tmp_path) as patch:
        yield patch


def train_on_devices(_communicator: Any) -> dict[int, float]:
    context.set_context(device_target="GPU")
    model, losses = make_model(4, **SHARDS), Losses()
    model.train(2, dataset(), [losses, ReshardAt(model, LEGS)], dataset_sink_mode=False)
    return losses.by_step


@pytest.mark.parametrize("way", ["nccl", "ipc"])
def test_a_training_moves_between_devices_and_its_losses_are_those_of_one_that_never_moved(
    device: pytest.MonkeyPatch, way: str
) -> None:
    travel_by(device, way)
    context.set_context(device_target="CPU")
    (wanted,) = run_world(1, lambda _: unmoved_losses())
    found: dict[int, float] = {}
    for losses in run_world(4, train_on_devices):
        found |= losses
    assert sorted(found) == list(range(1, 9))
    np.testing.assert_allclose([found[step] for step in sorted(found)], [wanted[step] for step in sorted(found)], 1e-9)


def moved_and_read(_communicator: Any, executor: str) -> tuple[int, tuple[str, ...]]:
    context.set_context(device_target="GPU")
    model = make_model(4, **SHARDS)
    model.train(1, dataset(), dataset_sink_mode=False)
    before, reads = state(model), DEVICE.reads
    report = model.reshard(Network(*CUTS[2]), ranks=2, executor=executor)
    reads = DEVICE.reads - reads
    model.reshard(Network(*CUTS[4]), ranks=4, executor=executor)
    after = state(model)
    assert before.keys() == after.keys()
    for name, (_, array) in before.items():
        assert after[name][1].tobytes() == array.tobytes(), name
    return reads, report.executors


def test_what_moves_between_devices_never_comes_to_the_host_unless_that_is_asked_for(
    device: pytest.MonkeyPatch,
) -> None:
    travel_by(device, "nccl")
    # The checksums of all windows are read at once.
    assert run_world(4, moved_and_read, "auto") == [(1, ("device",))] * 4
    by_the_host = run_world(4, moved_and_read, "shared")
    assert all(reads > 20 and executors == ("shared",) for reads, executors in by_the_host)
