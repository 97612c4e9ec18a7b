"""The end of a training whose machines are wanted back: agreed by all ranks, saved, and known by its exit code.

>>> import tempfile
>>> from mpiparallel import Model, nn
>>> from mpiparallel.dataset import NumpySlicesDataset
>>> from mpiparallel.train import Callback, ModelCheckpoint
>>> class StepFlag(Callback):
...     def step_begin(self, run_context):
...         run_context.request_preemption()
>>> def job(folder, *callbacks):
...     data = NumpySlicesDataset((np.ones((12, 3)), np.ones((12, 1))), ["x", "y"]).batch(6)
...     network = nn.Dense(3, 1).to_float("float64")
...     model = Model(network, nn.MSELoss(), nn.Adam(network.trainable_params()))
...     found = model.resume(folder, data)
...     model.train(4, data, [ModelCheckpoint("line", folder), *callbacks])
...     return found.step, model.step
>>> with tempfile.TemporaryDirectory() as folder:  # doctest: +ELLIPSIS
...     try:
...         job(folder, StepFlag())
...     except SystemExit as end:
...         print(end.code)
...     job(folder)
Model.resume: ... has no checkpoint, so the training begins at its beginning
Model.train: preempted by SIGUSR1: step 1 is saved in ...line-1_1.manifest.json; exit code 85: start the job again, ...
85
(1, 8)
"""

from __future__ import annotations

import signal
from typing import Any

import numpy as np

from mpiparallel.cluster.exit_codes import REQUEUE, SIGNALLED
from mpiparallel.cluster.preemption_signal import preemption_handlers, preemption_signals, signal_that_came
from mpiparallel.communication import world
from mpiparallel.communication.protocol import Communicator, StepFlag
from mpiparallel.parallel.configuration import ParallelMode
from mpiparallel.train.callback.callback import RunContext
from mpiparallel.train.object_collectives import world_or_alone
from mpiparallel.train.persistence.resume import Resumption


class Preempted(SystemExit):
    """Raised by ``Model.train`` on all ranks when it ends early because a signal has asked for it.

    The process then ends with ``code``. It is 85 where a checkpoint is saved from which the same program goes on;
    otherwise 128 and the number of the signal. What a program does in ``finally`` is done.
    """

    code: int

    def __init__(self, code: int, why: str) -> None:
        super().__init__(code)
        self.why = why

    def __str__(self) -> str:
        return self.why


class Preemption:
    """What the ranks of one training know together of the signal: ``number`` is 0 until it is to end by it.

    They tell each other as each step begins, in the comparison that they make then anyway (`communication.step_flag`).
    So a signal that comes during a step ends the training after the next step. A callback may request a preemption too;
    then it counts as the first of the signals that are heeded.
    """

    def __init__(self, run_context: RunContext) -> None:
        self._context = run_context
        self._handlers = preemption_handlers()
        self.number = 0

    def tell(self) -> None:
        """Have the ranks told what this one knows, with the step that comes."""
        step_flag = self._step_flag()
        if step_flag is not None:
            # What was heard from a rank that has died since, or left, may not have come to all.
            step_flag.own = max(self._own(), step_flag.heard)

    def comes(self, known: int) -> bool:
        """Return, on all ranks alike and after each step, whether the training is to end with it.

        ``known`` is the number of one that all ranks know of already, or 0.
        """
        step_flag = self._step_flag()
        number = (self._own() if step_flag is None else step_flag.heard) or known
        # One that is to stop anyway does so as it always does.
        self.number = 0 if self._context.get_stop_requested() else number
        return number > 0

    def _step_flag(self) -> StepFlag | None:
        """Return what the ranks that go through their steps together tell each other; None for one that is alone."""
        alone = self._context.original_args().parallel_mode == ParallelMode.STAND_ALONE or not world.initialised()
        return None if alone or world.current().size == 1 else world.current().step_flag

    def _own(self) -> int:
        number = signal_that_came(self._handlers)
        if self._context.get_preemption_requested() and not number:
            number = int(next(iter(preemption_signals()), signal.SIGTERM))
        return number

    def ended(self, step: int, resumed: Resumption | None) -> Preempted:
        """Return how the training ends after ``step``, when the callbacks have saved what they could."""
        if resumed is not None:
            self._context.report_saved(resumed.step, resumed.folder)
        own, where = self._context.get_saved()
        saved = own if self._step_flag() is None else _highest(own, world.current())
        end = _end(self.number, step, saved, where if own == saved else "files of another rank")
        if self._context.original_args().rank == 0:
            print(f"Model.train: {end.why}", flush=True)
        return end


def _end(number: int, step: int, saved: int, where: Any) -> Preempted:
    name = signal.Signals(number).name
    if saved < 0:
        code = SIGNALLED + number
        return Preempted(
            code,
            f"preempted by {name} after step {step}, and nothing is saved: give Model.train a ModelCheckpoint; exit "
            f"code {code}",
        )
    missed = "" if saved == step else f" after step {step}, which could not be saved"
    return Preempted(
        REQUEUE,
        f"preempted by {name}{missed}: step {saved} is saved in {where}; exit code {REQUEUE}: start the job again, and "
        "it goes on from there",
    )


def known_to_any(communicator: Communicator) -> int:
    """Return the number of the signal that any member knows of; all of them call it."""
    step_flag = world_or_alone().step_flag
    return _highest(max(signal_that_came(), step_flag.own, step_flag.heard), communicator)


def _highest(number: int, communicator: Communicator) -> int:
    if communicator.size == 1:
        return number
    found = np.array(number, np.int64)
    communicator.all_reduce(found, "max")
    return int(found)
