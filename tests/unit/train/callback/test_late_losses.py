"""The loss of a step on a GPU that is not there: read when somebody wants it, refused at the step it belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel import Model, context, nn
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import NonFiniteError
from mpiparallel.train import Callback
from mpiparallel.train.callback import CheckpointConfig, LossMonitor, ModelCheckpoint
from mpiparallel.train.callback.callback import CallbackParameters, RunContext
from tests.conformance.hidden_arrays.backend import install
from tests.conformance.hidden_arrays.stream import DEVICE, HiddenEvent

STEPS = 6


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    install(monkeypatch)
    return monkeypatch


def rows(infinite: int | None = None) -> Any:
    x = np.arange(1, STEPS + 1, dtype=np.float32).reshape(-1, 1) / 8
    if infinite is not None:
        x[infinite - 1] = np.inf
    return NumpySlicesDataset((x, 2 * x), ["x", "y"], shuffle=False).batch(1)


def model() -> Model:
    context.set_context(device_target="GPU")
    network = nn.Dense(1, 1, weight_init="zeros", bias_init="zeros")
    return Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.5))


class Waits(Callback):
    """Counts after each step for how many events and copies the host has waited."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.losses: list[Any] = []

    def step_end(self, run_context: Any) -> None:
        self.counts.append(DEVICE.waits + DEVICE.reads)
        self.losses.append(run_context.original_args().net_outputs)


def expected() -> list[float]:
    weight, bias, losses = 0.0, 0.0, []
    for x in np.arange(1, STEPS + 1) / 8:
        error = weight * x + bias - 2 * x
        losses.append(error**2)
        weight, bias = weight - error * x, bias - error
    return losses


def unread(_communicator: Any, patch: pytest.MonkeyPatch) -> tuple[list[int], list[float]]:
    waited: list[HiddenEvent] = []
    synchronize = HiddenEvent.synchronize
    patch.setattr(HiddenEvent, "synchronize", lambda self: (waited.append(self), synchronize(self))[1])
    seen = Waits()
    model().train(1, rows(), [seen, LossMonitor(100)], dataset_sink_mode=False)
    return [after - before for before, after in zip(seen.counts, seen.counts[1:], strict=False)], [
        float(one) for one in seen.losses
    ]


def test_nobody_waits_for_a_loss_that_nobody_reads_and_who_reads_it_later_finds_that_of_its_step(
    device: pytest.MonkeyPatch,
) -> None:
    ((waits, losses),) = run_world(1, unread, device)
    assert waits == [0] * (STEPS - 1)
    np.testing.assert_allclose(losses, expected(), 1e-5)


def test_a_loss_is_printed_at_the_step_it_belongs_to(
    device: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_world(1, lambda _: model().train(1, rows(), LossMonitor(2), dataset_sink_mode=False))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [f"epoch: 1 step: {step}" for step in (2, 4, 6)]
    found = [float(line.rsplit(" ", 1)[1]) for line in lines]
    np.testing.assert_allclose(found, expected()[1::2], 1e-5)


@pytest.mark.parametrize("step", [1, 3, STEPS])
def test_a_loss_that_is_not_finite_is_refused_by_the_number_of_its_step(device: pytest.MonkeyPatch, step: int) -> None:
    def train(_communicator: Any) -> None:
        model().train(1, rows(step), LossMonitor(0), dataset_sink_mode=False)

    with pytest.raises(NonFiniteError, match=rf"epoch: 1 step: {step}: the loss is (nan|inf)"):
        run_world(1, train)


def test_weights_of_a_loss_that_is_not_finite_are_never_saved(device: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def train(_communicator: Any) -> None:
        saver = ModelCheckpoint("net", str(tmp_path), CheckpointConfig(save_checkpoint_steps=1))
        model().train(1, rows(3), [LossMonitor(0), saver], dataset_sink_mode=False)

    with pytest.raises(NonFiniteError, match="step: 3"):
        run_world(1, train)
    saved = sorted(path.name for path in tmp_path.rglob("*1_*") if path.suffix == ".json")
    assert saved
    assert not any("1_3" in name for name in saved)


@pytest.mark.parametrize("moment", ["epoch_end", "resharding", "preempted"])
def test_a_loss_that_has_come_late_is_looked_at_before_an_epoch_ends_or_ranks_change(moment: str) -> None:
    def refuse() -> None:
        raise NonFiniteError("step: 7")

    parameters = CallbackParameters(unsettled=[refuse])
    with pytest.raises(NonFiniteError, match="step: 7"):
        getattr(LossMonitor(), moment)(RunContext(parameters))
    assert parameters.unsettled == []
