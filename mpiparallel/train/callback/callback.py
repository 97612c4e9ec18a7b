"""Callbacks: their moments, and what they are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError
from mpiparallel.train.callback.moment import Moment


@dataclass
class CallbackParameters:
    """What a callback may look at: MindSpore's names.

    ``epoch_num`` epochs follow the ``initial_epoch`` first ones, which this training leaves out. ``cur_step_num``
    counts all steps from 1 on, ``batch_num`` those of an epoch. It is the number of the step that
    begins or has ended. Where steps are sunk, and begin together, it is that of the last one that has ended.
    ``net_outputs`` is the loss tensor of the step that ended, or the mean of those of its batches. ``cur_batches`` is
    what this rank was fed in it. The batch of all ranks is ``pieces`` times ``batch_size``. ``joins`` says that this
    rank enters a training that the others are in already. ``resumed`` is what ``Model.resume`` has returned, if the
    training goes on from there. ``unsettled`` are checks of results that had not come from a device yet: ``settle``
    makes them.
    """

    network: Any = None
    train_network: Any = None
    optimizer: Any = None
    train_dataset: Any = None
    parallel_mode: str = ""
    device_number: int = 1
    rank: int = 0
    epoch_num: int = 1
    batch_num: int = 0
    batch_size: int = 0
    pieces: int = 1
    cur_epoch_num: int = 1
    cur_step_num: int = 0
    net_outputs: Any = None
    cur_batches: Sequence[Any] = ()
    staged: Any = None
    joins: bool = False
    initial_epoch: int = 0
    resumed: Any = None
    list_callback: Sequence[Any] = field(default_factory=tuple)
    unsettled: list[Callable[[], None]] = field(default_factory=list)

    def settle(self) -> None:
        """Make the checks that were put off, and raise what they raise; all ranks do it at the same moment."""
        checks, self.unsettled[:] = [*self.unsettled], []
        for check in checks:
            check()

    @property
    def step_in_epoch(self) -> int:
        """The step's place in its epoch, from 1 on."""
        return (self.cur_step_num - 1) % max(self.batch_num, 1) + 1


class RunContext:
    """What a callback is handed: the parameters of the run, and the way to end it.

    Parameters
    ----------
    original_args : CallbackParameters
        What a callback may look at.

    Examples
    --------
    >>> context = RunContext(CallbackParameters(cur_step_num=3))
    >>> context.request_stop()
    >>> context.original_args().cur_step_num, context.get_stop_requested()
    (3, True)
    """

    def __init__(self, original_args: CallbackParameters) -> None:
        self._parameters = original_args
        self._stop_requested = False
        self._preemption_requested = False
        self._saved: tuple[int, Any] = (-1, "")

    def original_args(self) -> CallbackParameters:
        """Return the parameters of the run."""
        return self._parameters

    def request_stop(self) -> None:
        """End the training after this step; every rank must ask for it at the same step."""
        self._stop_requested = True

    def get_stop_requested(self) -> bool:
        """Return whether some callback has asked to stop."""
        return self._stop_requested

    def request_preemption(self) -> None:
        """Do as if the signal of preemption had come to this rank; one rank is enough.

        For a cluster that tells by other ways than a signal that it wants its machines back.
        """
        self._preemption_requested = True

    def get_preemption_requested(self) -> bool:
        """Return whether a callback of this rank has asked for a preemption."""
        return self._preemption_requested

    def report_saved(self, step: int, where: Any) -> None:
        """Say that the state after ``step`` is safely in ``where``, so that a training started anew goes on from it."""
        self._saved = max(self._saved, (step, where), key=lambda saved: saved[0])

    def get_saved(self) -> tuple[int, Any]:
        """Return the newest step that is saved, and where; (-1, "") where none was reported."""
        return self._saved


class Callback:
    """Something to do at the moments of a training; a subclass overrides the moments that it wants.

    One whose moments call collectives sets ``on_all_ranks``: a training in which some rank lacks it is refused.

    Examples
    --------
    >>> from mpiparallel import Model, nn
    >>> from mpiparallel.dataset import NumpySlicesDataset
    >>> data = NumpySlicesDataset(([[1.0]] * 2, [[2.0]] * 2), ["x", "y"], shuffle=False).batch(1)
    >>> network = nn.Dense(1, 1, weight_init="zeros").to_float("float64")
    >>> model = Model(network, nn.MSELoss(), nn.SGD(network.trainable_params(), 0.25))
    >>> class Count(Callback):
    ...     def step_end(self, run_context):
    ...         print(run_context.original_args().cur_step_num)
    >>> model.train(1, data, Count(), dataset_sink_mode=False)
    1
    2
    """

    on_all_ranks = False

    def begin(self, run_context: RunContext) -> None:
        """Act before the first step."""

    def epoch_begin(self, run_context: RunContext) -> None:
        """Act before an epoch."""

    def step_begin(self, run_context: RunContext) -> None:
        """Act before a step."""

    def every_step(self, run_context: RunContext) -> None:
        """Act after each step, also where several are sunk at once, before ``step_end``."""

    def step_end(self, run_context: RunContext) -> None:
        """Act after a step."""

    def epoch_end(self, run_context: RunContext) -> None:
        """Act after an epoch."""

    def end(self, run_context: RunContext) -> None:
        """Act after the last step."""

    def preempted(self, run_context: RunContext) -> None:
        """Act, instead of at ``end``, when a signal ends the training after this step, to be started anew later.

        What saves says so by ``run_context.report_saved``. ``step_end`` has come before; ``epoch_end`` does not come.
        """

    def broken_off(self, run_context: RunContext) -> None:
        """Act after an error has ended the training, on this rank, maybe on no other: no collective may be called."""

    def resharding(self, run_context: RunContext) -> None:
        """Act before ``Model.reshard`` in a training moves it, or refuses to, on all ranks that train."""

    def resharded(self, run_context: RunContext) -> None:
        """Act after ``Model.reshard`` in a training, on all ranks that train from now on.

        On a rank that joins, ``begin`` (unless it has begun before) and ``epoch_begin`` come first, for that rank
        alone: ``joins`` is true then.
        """

    def ranks_lost(self, run_context: RunContext) -> None:
        """Act after other ranks have died, before those that live go on: no collective may be called.

        What was under way with the dead will not end. Then comes ``resharded``, maybe at an earlier step.
        """

    def retired(self, run_context: RunContext) -> None:
        """Act after ``Model.reshard`` in a training, on a rank that trains no longer, for that rank alone."""


class CallbackList:
    """Callbacks called in order at each moment; a moment's ``on_train_`` name is called too where a callback has it."""

    def __init__(self, callbacks: Any) -> None:
        found = [] if callbacks is None else list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
        for callback in found:
            if not isinstance(callback, Callback):
                raise ConfigurationError(f"callbacks: {callback!r} is not a Callback; derive its class from Callback")
        self.callbacks: tuple[Callback, ...] = tuple(found)

    def at(self, moment: Moment, run_context: RunContext) -> None:
        """Tell each callback that a moment has come."""
        for index in range(len(self.callbacks)):
            self.one_at(index, moment, run_context)

    def one_at(self, index: int, moment: Moment, run_context: RunContext) -> None:
        """Tell one callback that a moment has come."""
        callback = self.callbacks[index]
        getattr(callback, moment.value)(run_context)
        extra = getattr(callback, f"on_train_{moment.value}", None)
        if extra is not None:
            extra(run_context)
