"""Lines about loss and time, as the tutorials print them."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.errors import ConfigurationError, NonFiniteError
from mpiparallel.train.callback.callback import Callback, CallbackParameters, RunContext
from mpiparallel.train.callback.loss_guard import LossGuard


class LossMonitor(Callback):
    """Print the loss every ``per_print_times`` steps: ``epoch: 1 step: 77, loss is 7.187697``.

    In sink mode a step is as many as are sunk at once, so a line is printed for each epoch. In a training
    NonFiniteError is raised for a loss that is infinite or no number. If there is a LossGuard, it looks in time and
    decides instead.

    Parameters
    ----------
    per_print_times : int
        0 for never.

    Raises
    ------
    ConfigurationError
        When it is below 0.

    Examples
    --------
    >>> from mpiparallel import Model, nn
    >>> from mpiparallel.dataset import NumpySlicesDataset
    >>> data = NumpySlicesDataset(([[1.0]] * 2, [[2.0]] * 2), ["x", "y"], shuffle=False).batch(1)
    >>> network = nn.Dense(1, 1, weight_init="zeros").to_float("float64")
    >>> model = Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.25))
    >>> model.train(1, data, LossMonitor(), dataset_sink_mode=False)
    epoch: 1 step: 1, loss is 4.0
    epoch: 1 step: 2, loss is 0.0
    """

    def __init__(self, per_print_times: int = 1) -> None:
        if per_print_times < 0:
            raise ConfigurationError(f"LossMonitor: per_print_times {per_print_times} must be at least 0")
        self._per_print_times = per_print_times
        self._last_step = 0

    def step_end(self, run_context: RunContext) -> None:
        parameters = run_context.original_args()
        parameters.settle()
        step = parameters.cur_step_num
        prints = self._per_print_times and step - self._last_step >= self._per_print_times
        if prints or not parameters.net_outputs.comes_late:
            _check_of(parameters)()
        else:
            # After the next step: it has come by then, and the host does not wait.
            parameters.unsettled.append(_check_of(parameters))
        if prints:
            self._last_step = step
            loss = parameters.net_outputs.asnumpy()
            print(f"epoch: {parameters.cur_epoch_num} step: {parameters.step_in_epoch}, loss is {loss!s}", flush=True)

    def epoch_end(self, run_context: RunContext) -> None:
        run_context.original_args().settle()

    def resharding(self, run_context: RunContext) -> None:
        run_context.original_args().settle()

    def preempted(self, run_context: RunContext) -> None:
        run_context.original_args().settle()


def _check_of(parameters: CallbackParameters) -> Callable[[], None]:
    """Return what raises NonFiniteError where the loss of the step that has ended is not finite, and nobody guards."""
    loss, place = parameters.net_outputs, f"epoch: {parameters.cur_epoch_num} step: {parameters.step_in_epoch}"
    if any(isinstance(callback, LossGuard) for callback in parameters.list_callback):
        return lambda: None

    def check() -> None:
        value = loss.asnumpy()
        if not np.isfinite(value).all():
            raise NonFiniteError(
                f"{place}: the loss is {value!s}, and the weights may be too; train on from the last checkpoint with "
                "LossGuard() among the callbacks, which stops in time and names rank and weight"
            )

    return check


class TimeMonitor(Callback):
    """Print the time of each epoch and of each of its steps, in milliseconds.

    An epoch has the steps that the training counts.

    Parameters
    ----------
    data_size : int, optional
        Its steps, where the training does not count them; at least 1.
    data_time : bool
        Whether there is also the mean time from the end of a step, or the begin of the epoch, to the next step. It is
        that of waiting for data and of callbacks. Where several steps are sunk at once it cannot be told, as a remark
        says.

    Raises
    ------
    ConfigurationError
        When ``data_size`` is no such integer, or ``data_time`` is not bool.

    Examples
    --------
    >>> from mpiparallel.train.callback.callback import CallbackParameters
    >>> monitor, context = TimeMonitor(), RunContext(CallbackParameters(batch_num=2))
    >>> monitor.epoch_begin(context)
    >>> monitor.epoch_end(context)  # doctest: +ELLIPSIS
    epoch time: ... ms, per step time: ... ms
    """

    def __init__(self, data_size: int | None = None, data_time: bool = False) -> None:
        if not isinstance(data_time, bool):
            raise ConfigurationError(f"TimeMonitor: data_time {data_time!r} must be True or False")
        if data_size is not None and (not isinstance(data_size, int) or isinstance(data_size, bool) or data_size < 1):
            raise ConfigurationError(f"TimeMonitor: data_size {data_size!r} must be an integer of at least 1, or None")
        self._data_size, self._data_time = data_size, data_time
        self._start = self._ended = self._waited = 0.0
        self._step, self._is_sunk = 0, False

    def epoch_begin(self, run_context: RunContext) -> None:
        self._start = self._ended = time.perf_counter()
        self._waited = 0.0

    def step_begin(self, run_context: RunContext) -> None:
        self._waited += time.perf_counter() - self._ended
        self._step = run_context.original_args().cur_step_num

    def step_end(self, run_context: RunContext) -> None:
        self._is_sunk = run_context.original_args().cur_step_num > self._step + 1
        self._ended = time.perf_counter()

    def epoch_end(self, run_context: RunContext) -> None:
        milliseconds = (time.perf_counter() - self._start) * 1000.0
        steps = run_context.original_args().batch_num or self._data_size or 1
        line = f"epoch time: {milliseconds:.3f} ms, per step time: {milliseconds / steps:.3f} ms"
        if self._data_time and self._is_sunk:
            no_effect("TimeMonitor", "data_time", True, "steps that are sunk at once are not told apart")
        elif self._data_time:
            line += f" (data time: {self._waited * 1000.0 / steps:.3f} ms)"
        print(line, flush=True)
