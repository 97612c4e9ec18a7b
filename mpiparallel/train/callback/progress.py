"""One line that says where a training stands."""

from __future__ import annotations

import importlib.util
import sys
import time
from typing import Any

from mpiparallel.train.callback.callback import Callback, CallbackParameters, RunContext


def describe_progress(parameters: CallbackParameters, seconds: float, steps: int) -> str:
    """Return a progress line after ``steps`` steps in ``seconds``: loss, step time, samples a second, time left.

    The samples are those of all ranks.

    >>> parameters = CallbackParameters(epoch_num=2, batch_num=10, cur_step_num=5, net_outputs=7.5)
    >>> parameters.batch_size, parameters.pieces = 8, 4
    >>> describe_progress(parameters, 1.0, 5)
    'epoch 1/2 step 5/10  loss 7.5000  200.0 ms/step  160 samples/s  0:00:03 left'
    """
    per_step = seconds / max(steps, 1)
    samples = parameters.batch_size * parameters.pieces
    epochs = parameters.initial_epoch + parameters.epoch_num
    left = max(epochs * parameters.batch_num - parameters.cur_step_num, 0) * per_step
    hours, minutes, rest = int(left // 3600), int(left % 3600 // 60), int(left % 60)
    return (
        f"epoch {parameters.cur_epoch_num}/{epochs} step "
        f"{parameters.step_in_epoch}/{parameters.batch_num}  "
        f"loss {float(parameters.net_outputs):.4f}  {per_step * 1000:.1f} ms/step  "
        f"{samples / per_step if per_step else 0:.0f} samples/s  {hours}:{minutes:02d}:{rest:02d} left"
    )


class ProgressMonitor(Callback):
    """Show loss, step time, samples a second and the time left, on rank 0 only, also of steps that are sunk.

    On a terminal one line is kept up to date (by rich, where the extra ``ui`` is installed). Elsewhere a plain line is
    printed every ``seconds``, and after the last step.

    Parameters
    ----------
    seconds : float
        Between two lines.
    stream : file, optional
        Where it writes; by default stdout.

    Examples
    --------
    >>> from mpiparallel.train.callback import LossMonitor
    >>> callbacks = [ProgressMonitor(seconds=60.0), LossMonitor(0)]
    """

    def __init__(self, seconds: float = 5.0, stream: Any = None) -> None:
        self._seconds = seconds
        self._stream = stream or sys.stdout
        self._begin = self._shown = 0.0
        self._first_step = self._shown_step = 0
        self._bar: Any = None

    def begin(self, run_context: RunContext) -> None:
        parameters = run_context.original_args()
        self._begin = self._shown = time.perf_counter()
        self._first_step = self._shown_step = parameters.cur_step_num
        if parameters.rank == 0 and self._stream.isatty() and importlib.util.find_spec("rich"):
            from rich.status import Status  # an optional extra that only rank 0 needs

            self._bar = Status("compiling", spinner="dots")
            self._bar.start()

    def every_step(self, run_context: RunContext) -> None:
        now = time.perf_counter()
        if self._bar is not None or now - self._shown >= self._seconds:
            self._show(run_context.original_args(), now)

    def end(self, run_context: RunContext) -> None:
        parameters = run_context.original_args()
        if self._bar is not None:
            self._stop_bar()
            self._shown_step = self._first_step
        if parameters.cur_step_num > self._shown_step:
            self._show(parameters, time.perf_counter())

    def preempted(self, run_context: RunContext) -> None:
        self.end(run_context)

    def resharded(self, run_context: RunContext) -> None:
        if run_context.original_args().rank != 0:
            self._stop_bar()

    def retired(self, run_context: RunContext) -> None:
        self._stop_bar()

    def _stop_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _show(self, parameters: CallbackParameters, now: float) -> None:
        if parameters.rank != 0:
            return
        self._shown, self._shown_step = now, parameters.cur_step_num
        line = describe_progress(parameters, now - self._begin, parameters.cur_step_num - self._first_step)
        if self._bar is not None:
            self._bar.update(line)
        else:
            print(line, file=self._stream, flush=True)
