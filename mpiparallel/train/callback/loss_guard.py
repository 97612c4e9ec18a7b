"""What happens when a loss or a gradient is infinite or no number."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from mpiparallel.communication import world
from mpiparallel.communication.protocol import Communicator
from mpiparallel.dataclass import dataclass
from mpiparallel.dtype import is_floating
from mpiparallel.errors import ConfigurationError, NonFiniteError
from mpiparallel.train.callback.callback import Callback, CallbackParameters, RunContext
from mpiparallel.train.callback.checkpoint import ModelCheckpoint
from mpiparallel.train.object_collectives import world_or_alone
from mpiparallel.train.persistence.resume import Resumption, resume
from mpiparallel.train.persistence.training_record import facts_of

POLICIES: Final = ("stop", "skip", "rollback", "warn", "off")


@dataclass(frozen=True)
class _Findings:
    """What one rank finds after an unsound step: its loss, which input of its batch, which of its slices of weights."""

    loss: bool
    batch_input: int
    weight: int

    def row(self) -> list[int]:
        """Return it as three numbers; -1 for none."""
        return [int(self.loss), self.batch_input, self.weight]


class LossGuard(Callback):
    """Look at loss and gradients in each step, and act where some rank's are infinite or no number.

    The message names step, ranks, and the first weight whose gradient is concerned. All ranks decide alike, by one
    small AllReduce in the program.

    A TrainOneStepCell with a ``construct`` of its own is looked at only by its loss, after the update. Any policy but
    "rollback" and "warn" then stops. Where the scale of the loss is found by trying, gradients must overflow now and
    then. There only two things count: a loss that is not finite itself, and an overflow at the lowest scale. Over
    several batches a step, moving averages are not held back. ``skipped_steps`` are the steps found unsound and left
    out. A training whose loss is scaled has a guard that skips, with a limit of 100, unless it is given one.

    Parameters
    ----------
    policy : {"stop", "skip", "rollback", "warn", "off"}
        "stop" raises NonFiniteError on all ranks. Weights, optimizer states and moving averages are those from before
        the step, and checkpoints stay as they are. "skip" leaves the update out, says so, and goes on. "rollback" goes
        back to the state that a ModelCheckpoint has committed last, and on with the batches that follow; it stops where
        nothing is committed. "warn" makes the update and says so. "off" does not look.
    limit : int
        After how many such steps in a row "skip" and "rollback" stop; at least 1.
    stream : file, optional
        Where it writes; by default stdout.

    Raises
    ------
    ConfigurationError
        For another ``policy`` or ``limit``.

    Examples
    --------
    >>> LossGuard("skip", limit=3).policy
    'skip'
    """

    on_all_ranks = True

    def __init__(self, policy: str = "stop", limit: int = 10, stream: Any = None) -> None:
        if policy not in POLICIES:
            raise ConfigurationError(f"LossGuard: policy {policy!r} is not one of {', '.join(map(repr, POLICIES))}")
        if not isinstance(limit, int) or limit < 1:
            raise ConfigurationError(f"LossGuard: limit {limit!r} must be an integer of at least 1")
        self.policy = policy
        self.limit = limit
        self.skipped_steps: list[int] = []
        self._in_a_row = 0
        self._stream = stream

    def begin(self, run_context: RunContext) -> None:
        if self.policy != "off":
            run_context.original_args().train_network.check_finite(skip=self.policy != "warn")

    def every_step(self, run_context: RunContext) -> None:
        parameters = run_context.original_args()
        if self.policy == "off" or self._is_sound(parameters):
            self._in_a_row = 0
            return
        self._in_a_row += 1
        message = _describe(parameters)
        if self.policy == "warn":
            self._say(parameters, f"{message}; the update was made (LossGuard('warn'))")
            return
        check = parameters.train_network.finite_check
        if self.policy == "stop" or not (check.judges or self.policy == "rollback"):
            raise NonFiniteError(f"{message}; {_before(parameters)}. {_MEND}")
        self.skipped_steps.append(parameters.cur_step_num)
        if self._in_a_row >= self.limit:
            raise NonFiniteError(
                f"{message}; that is {self._in_a_row} steps in a row (LossGuard's limit); {_before(parameters)}. "
                f"{_MEND}"
            )
        if self.policy == "rollback":
            self._say(parameters, f"{message}; gone back to {self._gone_back(message, parameters)}")
        else:
            self._say(parameters, f"{message}; the update is left out, {len(self.skipped_steps)} so far")

    def _gone_back(self, message: str, parameters: CallbackParameters) -> Resumption:
        """Load the state that was committed last; raise NonFiniteError, on all ranks, where there is none."""
        savers = (callback for callback in parameters.list_callback if isinstance(callback, ModelCheckpoint))
        committed = [saver.committed for saver in savers if saver.committed is not None]
        if parameters.resumed is not None:
            committed.append((parameters.resumed.folder, parameters.resumed.prefix))
        if not committed:
            raise NonFiniteError(f"{message}; nothing is committed to go back to; {_before(parameters)}. {_MEND}")
        facts = facts_of(parameters.train_network, parameters.train_dataset, parameters.pieces)
        folder, prefix = committed[0]
        found = resume(folder, prefix, parameters.staged, facts, True, world_or_alone())
        if found is None:
            raise NonFiniteError(f"{message}; what was committed in {folder} is gone; {_before(parameters)}. {_MEND}")
        return found

    def resharded(self, run_context: RunContext) -> None:
        # A rank that has joined has not counted with the others, and all must come to the limit together.
        communicator = _communicator(run_context.original_args())
        if communicator is not None and self.policy != "off":
            count = np.array(self._in_a_row, np.int64)
            communicator.all_reduce(count, "max")
            self._in_a_row = int(count)

    def end(self, run_context: RunContext) -> None:
        if self.skipped_steps:
            steps = ", ".join(map(str, self.skipped_steps[:10])) + (", ..." if len(self.skipped_steps) > 10 else "")
            self._say(run_context.original_args(), f"{len(self.skipped_steps)} updates were left out: steps {steps}")

    def preempted(self, run_context: RunContext) -> None:
        self.end(run_context)

    def _is_sound(self, parameters: CallbackParameters) -> bool:
        check = parameters.train_network.finite_check
        if not check.judges:
            # A step of the user's own making asks for no verdict: only the loss can be seen, and ranks must agree.
            unsound = not np.isfinite(parameters.net_outputs.asnumpy()).all()
            communicator = _communicator(parameters)
            return not (unsound if communicator is None else communicator.any_true(unsound))
        return bool(check.was_sound or (parameters.train_network.seeks_scale and check.loss_was_finite))

    def _say(self, parameters: CallbackParameters, line: str) -> None:
        if parameters.rank == 0:
            print(f"LossGuard: {line}", file=self._stream or sys.stdout, flush=True)


_MEND: Final = (
    "Look at that batch, lower the learning rate or clip the gradients, and train on from the last checkpoint; "
    "LossGuard('skip') leaves such steps out"
)


def _before(parameters: CallbackParameters) -> str:
    if not parameters.train_network.finite_check.judges:
        return (
            "the update was made, because this TrainOneStepCell has a construct of its own: override prepared instead"
        )
    if parameters.train_network.batches_a_step > 1:
        return "weights and optimizer states are those from before the step"
    return "weights, optimizer states and moving averages are those from before the step"


def _describe(parameters: CallbackParameters) -> str:
    """Return which step was unsound, on which ranks, and where; all ranks call it together and get the same."""
    check = parameters.train_network.finite_check
    rows = _gathered(_find(parameters), parameters)
    culprits = check.culprits()
    place = f"step {parameters.cur_step_num} (epoch {parameters.cur_epoch_num}, step {parameters.step_in_epoch})"
    losses = [rank for rank, row in enumerate(rows) if row[0]]
    told = [f"the loss is not finite{_on(losses, rows)}" if losses else "the loss is finite"]
    if culprits:
        more = f" and {len(culprits) - 1} more" if len(culprits) > 1 else ""
        told.append(f"not finite are the gradients of {culprits[0]!r}{more}")
    inputs = [rank for rank, row in enumerate(rows) if row[1] >= 0]
    if inputs:
        told.append(f"input {rows[inputs[0]][1]} of the batch holds inf or nan{_on(inputs, rows)}")
    weights = [rank for rank, row in enumerate(rows) if row[2] >= 0]
    if weights:
        name = check.weights[rows[weights[0]][2]].name
        told.append(f"the weight {name!r} already held inf or nan{_on(weights, rows)}")
    return f"{place}: {'; '.join(told)}"


def _on(ranks: list[int], rows: Sequence[Sequence[int]]) -> str:
    if len(rows) == 1:
        return ""
    if len(ranks) == len(rows):
        return " on all ranks"
    return f" on rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _find(parameters: CallbackParameters) -> _Findings:
    arrays = [array for batch in parameters.cur_batches for array in batch]
    network = parameters.train_network
    # After an update they would tell nothing new.
    looked_at = network.finite_check.weights if network.skips_unsound else ()
    weights = [np.empty(0) if weight.is_elsewhere else weight.asnumpy() for weight in looked_at]
    per_batch = max(len(parameters.cur_batches[0]), 1) if parameters.cur_batches else 1
    found = _first_unsound(arrays)
    loss = not np.isfinite(parameters.net_outputs.asnumpy()).all()
    return _Findings(bool(loss), found % per_batch if found >= 0 else -1, _first_unsound(weights))


def _first_unsound(arrays: Sequence[np.ndarray[Any, Any]]) -> int:
    floats = ((index, np.asarray(array)) for index, array in enumerate(arrays))
    return next((index for index, one in floats if is_floating(one.dtype) and not np.isfinite(one).all()), -1)


def _communicator(parameters: CallbackParameters) -> Communicator | None:
    """Return the communicator of the ranks that train the network together; None for one rank."""
    if not world.initialised() or parameters.device_number == 1:
        return None
    return world.current() if world.current().size == parameters.device_number else None


def _gathered(findings: _Findings, parameters: CallbackParameters) -> list[list[int]]:
    """Return the rows of all ranks of the network, rank after rank."""
    communicator = _communicator(parameters)
    if communicator is None:
        return [findings.row()]
    rows = np.empty((communicator.size, 3), np.int64)
    communicator.all_gather(np.asarray([findings.row()], np.int64), rows)
    found: list[list[int]] = rows.tolist()
    return found
