"""Lines of loss and time, step by step, by parameters that are set by hand."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor
from mpiparallel.errors import NonFiniteError
from mpiparallel.train import LossGuard, LossMonitor, TimeMonitor
from mpiparallel.train.callback import monitor as monitor_module
from mpiparallel.train.callback.callback import Callback, CallbackList, CallbackParameters, RunContext


def after_steps(monitor: Callback, steps: list[int], loss: float = 0.5, **given: Any) -> None:
    """Tell a callback of the ends of these steps."""
    for step in steps:
        parameters = CallbackParameters(batch_num=4, cur_step_num=step, **given)
        parameters.cur_epoch_num = (step - 1) // 4 + 1
        parameters.net_outputs = Tensor(np.float32(loss))
        monitor.step_end(RunContext(parameters))


@pytest.mark.parametrize(
    ("every", "steps", "lines"),
    [
        (1, [1, 2, 5], ["epoch: 1 step: 1", "epoch: 1 step: 2", "epoch: 2 step: 1"]),
        (3, [1, 2, 3, 4, 5, 6], ["epoch: 1 step: 3", "epoch: 2 step: 2"]),
        # Four steps are sunk at once: a line once as many as asked have gone by.
        (3, [4, 8, 12], ["epoch: 1 step: 4", "epoch: 2 step: 4", "epoch: 3 step: 4"]),
        (6, [4, 8, 12], ["epoch: 2 step: 4"]),
        (0, [1, 2, 3], []),
    ],
)
def test_a_line_comes_once_so_many_steps_have_gone_by(
    every: int, steps: list[int], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    after_steps(LossMonitor(every), steps)
    assert capsys.readouterr().out.splitlines() == [f"{line}, loss is 0.5" for line in lines]


@pytest.mark.parametrize("loss", [np.nan, np.inf, -np.inf])
def test_a_loss_that_is_not_finite_is_told_with_its_step_unless_a_guard_looks(loss: float) -> None:
    words = f"epoch: 2 step: 3: the loss is {loss}, and the weights may be too; train on from the last checkpoint with "
    for every in (0, 1, 9):
        with pytest.raises(NonFiniteError, match=f"^{re.escape(words)}"):
            after_steps(LossMonitor(every), [7], loss)
    after_steps(LossMonitor(0), [7], loss, list_callback=[LossMonitor(), LossGuard()])


def test_checks_that_were_put_off_are_made_once_in_their_order() -> None:
    made: list[int] = []
    parameters = CallbackParameters(unsettled=[lambda: made.append(1), lambda: made.append(2)])
    parameters.settle()
    parameters.settle()
    assert made == [1, 2]


class Clock:
    """A clock that is set by hand."""

    now = 50.0

    def perf_counter(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("data_size", "batch_num", "milliseconds"),
    [
        # The steps that the training counts go before those that were given.
        (None, 4, "500.000"),
        (5, 4, "500.000"),
        (5, 0, "400.000"),
        (None, 0, "2000.000"),
    ],
)
def test_the_time_of_an_epoch_is_shared_out_to_its_steps(
    data_size: int | None,
    batch_num: int,
    milliseconds: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    monkeypatch.setattr(monitor_module, "time", clock)
    monitor, context = TimeMonitor(data_size), RunContext(CallbackParameters(batch_num=batch_num))
    monitor.epoch_begin(context)
    clock.now += 2.0
    monitor.epoch_end(context)
    assert capsys.readouterr().out == f"epoch time: 2000.000 ms, per step time: {milliseconds} ms\n"


@pytest.mark.parametrize(("step", "place"), [(1, 1), (3, 3), (4, 4), (5, 1), (8, 4), (9, 1)])
def test_steps_are_counted_in_their_epoch_from_one_on(step: int, place: int) -> None:
    assert CallbackParameters(batch_num=4, cur_step_num=step).step_in_epoch == place
    assert CallbackParameters(batch_num=0, cur_step_num=step).step_in_epoch == 1


def test_parameters_of_ones_own_begin_before_the_first_step() -> None:
    parameters = CallbackParameters()
    assert (parameters.cur_step_num, parameters.cur_epoch_num, parameters.epoch_num) == (0, 1, 1)


def test_the_newest_step_that_is_saved_counts_whoever_says_so_last() -> None:
    context = RunContext(CallbackParameters())
    assert context.get_saved() == (-1, "")
    assert not context.get_stop_requested()
    assert not context.get_preemption_requested()
    for step, where in ((0, "a"), (7, "b"), (5, "c"), (7, "d")):
        context.report_saved(step, where)
    assert context.get_saved() == (7, "b")
    context.request_preemption()
    assert context.get_preemption_requested()
    assert not context.get_stop_requested()


@pytest.mark.parametrize(
    ("given", "count"), [(None, 0), (LossMonitor(), 1), ([LossMonitor(), TimeMonitor()], 2), ((LossMonitor(),), 1)]
)
def test_callbacks_are_none_one_or_several(given: Any, count: int) -> None:
    assert len(CallbackList(given).callbacks) == count
