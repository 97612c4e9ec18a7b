"""Lines of progress: where a training stands, how quick it is, and how long it will take."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from mpiparallel import Model, nn
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.train import ProgressMonitor
from mpiparallel.train.callback import progress
from mpiparallel.train.callback.callback import CallbackParameters, RunContext
from mpiparallel.train.callback.progress import describe_progress


def parameters(**changed: Any) -> CallbackParameters:
    """Return those of the fifth step of an epoch of ten, of two epochs; four ranks are fed eight samples each."""
    given = {"epoch_num": 2, "batch_num": 10, "cur_step_num": 5, "net_outputs": 7.5, "batch_size": 8, "pieces": 4}
    return CallbackParameters(**{**given, **changed})


@pytest.mark.parametrize(
    ("changed", "seconds", "steps", "line"),
    [
        ({}, 1.0, 5, "epoch 1/2 step 5/10  loss 7.5000  200.0 ms/step  160 samples/s  0:00:03 left"),
        # The last step of an epoch, and the first of the next one.
        (
            {"cur_step_num": 10},
            2.0,
            10,
            "epoch 1/2 step 10/10  loss 7.5000  200.0 ms/step  160 samples/s  0:00:02 left",
        ),
        (
            {"cur_step_num": 11, "cur_epoch_num": 2},
            5.5,
            11,
            "epoch 2/2 step 1/10  loss 7.5000  500.0 ms/step  64 samples/s  0:00:04 left",
        ),
        # One epoch was left out at the beginning, so there are three.
        (
            {"cur_step_num": 15, "cur_epoch_num": 2, "initial_epoch": 1},
            1.0,
            5,
            "epoch 2/3 step 5/10  loss 7.5000  200.0 ms/step  160 samples/s  0:00:03 left",
        ),
        # Nothing has been timed yet, and nothing is left.
        ({"cur_step_num": 20}, 0.0, 0, "epoch 1/2 step 10/10  loss 7.5000  0.0 ms/step  0 samples/s  0:00:00 left"),
        ({"cur_step_num": 25}, 5.0, 25, "epoch 1/2 step 5/10  loss 7.5000  200.0 ms/step  160 samples/s  0:00:00 left"),
    ],
)
def test_a_line_says_epoch_step_loss_speed_and_time_left(
    changed: dict[str, Any], seconds: float, steps: int, line: str
) -> None:
    assert describe_progress(parameters(**changed), seconds, steps) == line


def test_a_training_that_begins_with_a_later_epoch_counts_those_before() -> None:
    network, stream = nn.Dense(3, 1), io.StringIO()
    model = Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.1))
    data = NumpySlicesDataset((np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)), ["x", "y"]).batch(2)
    model.train(3, data, ProgressMonitor(0.0, stream), dataset_sink_mode=False, initial_epoch=1)
    shown = [line.split("  ")[0] for line in stream.getvalue().splitlines()]
    assert shown == [f"epoch {epoch}/3 step {step}/2" for epoch in (2, 3) for step in (1, 2)]


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def test_lines_are_as_many_seconds_apart_as_asked_and_one_comes_after_the_last_step(clock: Clock) -> None:
    stream = io.StringIO()
    monitor, told = ProgressMonitor(5.0, stream), parameters(cur_step_num=2, epoch_num=1)
    monitor.begin(RunContext(told))
    for seconds in (2.0, 2.9, 0.1, 4.0, 2.0, 1.0):
        clock.now += seconds
        told.cur_step_num += 1
        monitor.every_step(RunContext(told))
    # After 5 seconds three steps had been made, and after 11 five; the sixth comes one second later.
    assert [line.split("  ")[:3] for line in stream.getvalue().splitlines()] == [
        ["epoch 1/1 step 5/10", "loss 7.5000", "1666.7 ms/step"],
        ["epoch 1/1 step 7/10", "loss 7.5000", "2200.0 ms/step"],
    ]
    for _ in range(2):
        monitor.end(RunContext(told))
    assert stream.getvalue().splitlines()[2:] == [
        "epoch 1/1 step 8/10  loss 7.5000  2000.0 ms/step  16 samples/s  0:00:04 left"
    ]


class Flushed(io.StringIO):
    """What has been written, as far as it is seen already."""

    seen = ""

    def flush(self) -> None:
        self.seen = self.getvalue()


def test_a_line_is_seen_at_once(clock: Clock) -> None:
    stream = Flushed()
    monitor, told = ProgressMonitor(0.0, stream), parameters()
    monitor.begin(RunContext(told))
    clock.now += 1.0
    monitor.every_step(RunContext(told))
    assert stream.seen == stream.getvalue() != ""


def test_other_ranks_say_nothing_and_five_seconds_are_between_two_lines_unless_told(clock: Clock) -> None:
    for rank, lines in ((0, 1), (1, 0)):
        stream = io.StringIO()
        monitor, told = ProgressMonitor(stream=stream), parameters(rank=rank)
        monitor.begin(RunContext(told))
        for seconds in (4.5, 0.5):
            clock.now += seconds
            told.cur_step_num += 1
            monitor.every_step(RunContext(told))
        monitor.preempted(RunContext(told))
        assert len(stream.getvalue().splitlines()) == lines
