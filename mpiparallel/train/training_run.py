"""One call of ``Model.train``: epochs, steps and callbacks, on ranks that may change between two of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.cluster.preemption_signal import heed_preemption
from mpiparallel.compatibility.remark import remark
from mpiparallel.context.settings import current_configuration
from mpiparallel.dataset.dataset import Dataset
from mpiparallel.errors import CommunicationError, DatasetError, RankFailureError, ReshardError
from mpiparallel.parallel.configuration import ParallelConfiguration
from mpiparallel.train.callback.callback import CallbackList, CallbackParameters, RunContext
from mpiparallel.train.callback.loss_guard import LossGuard
from mpiparallel.train.callback.moment import Moment
from mpiparallel.train.elastic.fed_data import FedData
from mpiparallel.train.elastic.leader_message import (
    LeaderMessage,
    ReshardCommand,
    Shutdown,
    SpawnRequest,
    TrainingEnd,
    error_of,
)
from mpiparallel.train.elastic.membership import is_awaited
from mpiparallel.train.elastic.proposal import TrainingProgress
from mpiparallel.train.elastic.spare_interrupts import interrupts_held
from mpiparallel.train.feeding.batch_agreement import check_batches, check_callbacks
from mpiparallel.train.feeding.dataset_check import check_columns, check_dataset
from mpiparallel.train.feeding.read_columns import ReadColumns, first_batch
from mpiparallel.train.preemption import Preempted, Preemption
from mpiparallel.train.recovery import Recovery
from mpiparallel.train.training_session import Batch, TrainingSession

_MOST_SKIPPED = 100
"""Steps in a row that a training with a scaled loss may leave out where no LossGuard says how many."""


class TrainingRun:
    """Trains ``epochs`` epochs from where the model stands, ``sunk`` steps at once; None: all of an epoch.

    It goes from moment to moment of the callbacks, and ``position`` says where it stands: there the ranks that come
    with a reshard go on. ``epoch`` counts from 0, ``left`` the steps that are still to be made before ``step_end``.
    """

    def __init__(
        self,
        session: TrainingSession,
        epochs: int,
        dataset: Dataset,
        callbacks: Any,
        sunk: int | None,
        initial_epoch: int,
    ) -> None:
        self._session = session
        heed_preemption()
        self._data = FedData(dataset)
        self._sunk = sunk
        self._first_epoch, self._last_epoch = initial_epoch, epochs
        check_dataset("Model.train", dataset)
        session.training.check_as_made()
        self._callbacks = CallbackList(callbacks)
        watched = any(isinstance(callback, LossGuard) for callback in self._callbacks.callbacks)
        if session.training.skips_unsound and not watched:
            self._callbacks = CallbackList([*self._callbacks.callbacks, LossGuard("skip", _MOST_SKIPPED)])
        self._batches_a_step = session.training.batches_a_step
        self._parameters = CallbackParameters(
            network=session.network,
            train_network=session.training,
            optimizer=getattr(session.training, "optimizer", None),
            epoch_num=epochs - initial_epoch,
            initial_epoch=initial_epoch,
            resumed=session.resumed,
            list_callback=self._callbacks.callbacks,
        )
        self._context = RunContext(self._parameters)
        self._moment, self._told, self._epoch, self._left = Moment.BEGIN, 0, initial_epoch, 0
        self._preemption = Preemption(self._context)
        self._batches: Any = None
        self._steps: Iterator[list[Batch]] = iter(())
        self._next: list[list[Batch]] = []
        self._generation = session.generation
        self._has_begun = False
        self._recovery = Recovery(session, self._callbacks.callbacks)

    def position(self) -> dict[str, Any]:
        """Return where the run stands: ``teller`` is the callback that has been told of ``moment`` last."""
        return {
            "moment": self._moment.value,
            "teller": self._teller(),
            "epoch": self._epoch,
            "last_epoch": self._last_epoch,
            "left": self._left,
            "stop": self._context.get_stop_requested(),
            "signal": self._preemption.number,
            "data": self._data.position(),
        }

    def _place(self) -> dict[str, Any]:
        """Return the position, and how many callbacks of this rank have been told: others may have other ones."""
        return {**self.position(), "told": self._told}

    def _teller(self) -> list[Any]:
        """Return the class of the callback told last, and its place among these; ranks may have some of their own."""
        classes = self._callback_classes()[: self._told]
        return [classes[-1], classes.count(classes[-1])] if classes else ["", 0]

    def _told_with(self, teller: Sequence[Any]) -> int:
        """Return how many callbacks of this rank have been told when this one has: all where it has none such."""
        name, occurrence = teller
        classes = self._callback_classes()
        counts = (told for told in range(1, len(classes) + 1) if classes[:told].count(name) == occurrence)
        return next(counts, len(classes)) if occurrence else 0

    def _callback_classes(self) -> list[str]:
        return [type(callback).__qualname__ for callback in self._callbacks.callbacks]

    def check_data(self, configuration: ParallelConfiguration, ranks: Sequence[int]) -> None:
        """Raise DatasetError unless the data can be dealt out to these ranks, so that each step has its samples."""
        steps = self._data.dealt_to(ranks, configuration).get_dataset_size() // self._batches_a_step
        if steps != self._parameters.batch_num:
            raise DatasetError(
                f"Model.reshard: an epoch has {self._parameters.batch_num} steps on "
                f"{self._parameters.device_number} ranks, but would have {steps} on {len(ranks)}; give the dataset as "
                "many samples as a multiple of the batch of all ranks"
            )

    def train(self) -> None:
        """Train to the end, with the ranks that are there then."""
        try:
            if is_awaited():
                self._heeds(self._session.resharding.meet())
            while not self._session.has_left and not self._has_ended():
                pass
        except Preempted as end:
            self._let_spares_go(end)
            raise
        except RankFailureError:
            # All ranks that live are told by their own calls.
            self._callbacks.at(Moment.BROKEN_OFF, self._context)
            raise
        except BaseException as error:
            self._callbacks.at(Moment.BROKEN_OFF, self._context)
            # Where the ranks cannot reach each other any more, that is what they are told of anyway.
            with suppress(CommunicationError):
                self._let_spares_go(error)
            raise
        finally:
            self._close()

    def _has_ended(self) -> bool:
        """Train, or wait, until ranks change; return whether it has come to its end instead."""
        try:
            if not self._session.active:
                with interrupts_held():
                    if self._wait():
                        return False
            elif not self._train_here():
                return False
            self._let_spares_go(None)
            if self._recovery.have_all_ended():
                return True
        except RankFailureError:
            if not self._recovery.survives:
                raise
        self._close()
        self._callbacks.at(Moment.RANKS_LOST, self._context)
        progress = TrainingProgress(self._session.step, self._place(), self.check_data)
        command = self._recovery.meet(progress)
        self._take_position((command and command.position) or {})
        return False

    def announce_reshard(self) -> None:
        """Tell the callbacks that ranks are about to change."""
        self._preemption.tell()
        self._callbacks.at(Moment.RESHARDING, self._context)

    def _let_spares_go(self, error: BaseException | None) -> None:
        if self._session.generation:
            self._session.resharding.end(error)

    def _wait(self) -> bool:
        """Sleep until this rank is called, or until the training ends; return whether it is called."""
        while True:
            message = self._session.resharding.hear()
            if isinstance(message, Shutdown):
                return False
            if isinstance(message, TrainingEnd):
                if message.error:
                    raise error_of(message)
                return False
            if self._heeds(message):
                return self._session.active

    def _heeds(self, message: LeaderMessage) -> bool:
        """Do what those who train ask for; return whether this rank does not wait any longer."""
        try:
            if isinstance(message, SpawnRequest):
                message = self._session.resharding.grow(message)
            if not isinstance(message, ReshardCommand):
                return False
            self._session.follow(message)
        except RankFailureError:
            raise
        except (CommunicationError, ReshardError):
            # It failed on all ranks alike; those that train say what comes of it.
            return False
        self._take_position(message.position or {})
        return self._session.active or self._session.has_left

    def _take_position(self, position: dict[str, Any]) -> None:
        if position:
            self._moment, self._told = Moment(position["moment"]), self._told_with(position["teller"])
            self._epoch, self._left = position["epoch"], position["left"]
            self._last_epoch = position["last_epoch"]
            self._data.take_position(position["data"])
            self._preemption.number = position["signal"]
            if position["stop"]:
                self._context.request_stop()

    def _train_here(self) -> bool:
        """Train on this rank; return whether the training has ended, and not gone to other ranks."""
        self._prepare()
        if self._recovery.is_due:
            self._go_on_with_survivors()
        elif self._has_begun or self._told:
            self._begin_again(joins=True)
        while self._moment != Moment.DONE:
            if not self._tell():
                return False
            self._moment, self._told = self._following(), 0
        return True

    def _go_on_with_survivors(self) -> None:
        """Go on where the survivors of a death have agreed to, with what they hold or what they load."""
        found = self._recovery.load(self._parameters)
        if found is not None:
            self._epoch = found.step // self._parameters.batch_num
            self._parameters.resumed, self._parameters.cur_step_num = found, found.step
            self._parameters.cur_epoch_num = self._epoch + 1
            self._moment, self._told = Moment.BEGIN, len(self._callbacks.callbacks)
        self._begin_again(joins=False)
        self._recovery.end(self._parameters)

    def _prepare(self) -> None:
        """Make ready for the ranks there are now; all of them do it together."""
        self._close()
        session, parameters, configuration = self._session, self._parameters, current_configuration()
        dataset = parameters.train_dataset = self._data.dealt_to(session.ranks, configuration)
        batch_num = dataset.get_dataset_size() // self._batches_a_step
        columns = first_batch(dataset) if batch_num else {}
        batch = list(columns.values())
        specs = [TensorSpec(column.shape, column.dtype) for column in batch]
        check_batches(batch_num, specs, self._batches_a_step)
        check_callbacks(self._callbacks.callbacks)
        check_columns("Model.train", session.training, columns)
        parameters.parallel_mode, parameters.device_number = configuration.mode, configuration.device_num
        parameters.rank = configuration.rank
        parameters.batch_num, parameters.batch_size = batch_num, dataset.get_batch_size() * self._batches_a_step
        parameters.pieces = configuration.batch_pieces
        session.training.set_train()
        parameters.staged = session.shard(batch, configuration)
        self._columns = ReadColumns.of(list(columns), specs, parameters.staged.of_rank(configuration.rank))
        if self._recovery.shrinking is not None:
            # So that there is a state to copy before the first step.
            session.training.compile(*batch)
        if not self._has_begun and not self._told:
            if session.has_trained and not self._first_epoch:
                self._come_after(-(-session.step // batch_num))
            elif session.step >= self._last_epoch * batch_num:
                remark(
                    f"Model.train: nothing is left to train, since step {session.step} ends the last of "
                    f"{self._last_epoch} epochs; ask for more of them"
                )
            session.step = max(session.step, self._first_epoch * batch_num)
            self._epoch = session.step // batch_num
        parameters.cur_step_num, parameters.cur_epoch_num = session.step, self._epoch + 1
        self._generation = session.generation

    def _come_after(self, epochs: int) -> None:
        """Number the epochs on after those that earlier calls of ``train`` have ended with."""
        self._first_epoch, self._last_epoch = self._first_epoch + epochs, self._last_epoch + epochs
        self._parameters.epoch_num += epochs

    @property
    def was_stopped(self) -> bool:
        """Whether a callback has asked to stop."""
        return self._context.get_stop_requested()

    def _begin_again(self, joins: bool) -> None:
        """Tell the callbacks that other ranks train from now on; on a rank that joins, the beginnings come first."""
        self._parameters.joins = joins
        if not self._has_begun:
            self._has_begun = True
            self._callbacks.at(Moment.BEGIN, self._context)
        if joins and self._moment not in (Moment.BEGIN, Moment.EPOCH_BEGIN):
            self._callbacks.at(Moment.EPOCH_BEGIN, self._context)
        self._callbacks.at(Moment.RESHARDED, self._context)
        self._parameters.joins = False

    def _tell(self) -> bool:
        """Tell the callbacks that have not been told of this moment; return whether this rank still trains."""
        if self._moment == Moment.BEGIN:
            self._has_begun = True
        for index in range(self._told, len(self._callbacks.callbacks)):
            self._told = index + 1
            # As in MindSpore: a step that begins alone is told by its own number, not by that of the one before.
            if self._moment == Moment.STEP_BEGIN and self._sunk == 1:
                self._parameters.cur_step_num = self._session.step + 1
            self._callbacks.one_at(index, self._moment, self._context)
            if self._generation != self._session.generation:
                self._close()
                if not self._session.active:
                    self._callbacks.at(Moment.RETIRED, self._context)
                    return False
                self._prepare()
                self._begin_again(joins=False)
        return True

    def _following(self) -> Moment:
        """Do what comes between this moment and the next, and return the next."""
        if self._moment == Moment.BEGIN:
            return self._next_epoch()
        if self._moment == Moment.EPOCH_BEGIN:
            return self._next_block()
        if self._moment in (Moment.STEP_BEGIN, Moment.EVERY_STEP):
            if self._is_preempted():
                self._left = 0
            return self._next_step()
        if self._moment == Moment.STEP_END and self._preemption.number:
            return Moment.PREEMPTED
        if self._moment == Moment.PREEMPTED:
            raise self._preemption.ended(self._session.step, self._session.resumed)
        if self._moment == Moment.STEP_END:
            return Moment.EPOCH_END if self._context.get_stop_requested() else self._next_block()
        if self._moment == Moment.EPOCH_END:
            self._epoch += 1
            return Moment.END if self._context.get_stop_requested() else self._next_epoch()
        return Moment.DONE

    def _is_preempted(self) -> bool:
        """Return, after a step, whether a signal ends the training with it; the last one of all is no early end."""
        if self._moment != Moment.EVERY_STEP or self._session.step >= self._last_epoch * self._parameters.batch_num:
            return False
        return self._preemption.comes(self._session.resharding.signal if self._session.generation else 0)

    def _next_epoch(self) -> Moment:
        self._close()
        if self._epoch >= self._last_epoch:
            return Moment.END
        self._parameters.cur_epoch_num = self._epoch + 1
        return Moment.EPOCH_BEGIN

    def _next_block(self) -> Moment:
        if not self._peek():
            return Moment.EPOCH_END
        self._left = self._sunk or self._parameters.batch_num
        return Moment.STEP_BEGIN

    def _next_step(self) -> Moment:
        if not self._left or not self._peek():
            return Moment.STEP_END
        step = self._next.pop()
        self._preemption.tell()
        if self._recovery.shrinking is not None:
            self._recovery.shrinking.begin_step(self._session.step, self._place())
        self._parameters.net_outputs = self._session.run_step(*step)
        self._parameters.cur_step_num, self._parameters.cur_batches = self._session.step, step
        self._left -= 1
        if self._recovery.shrinking is not None:
            self._recovery.shrinking.end_step()
        return Moment.EVERY_STEP

    def _peek(self) -> bool:
        """Have the batches of the next step ready; return False at the end of the epoch."""
        if self._batches is None:
            skip = self._session.step - self._epoch * self._parameters.batch_num
            self._batches = self._columns.batches(
                self._parameters.train_dataset, self._epoch, skip * self._batches_a_step
            )
            self._steps = self._whole_steps()
        if not self._next:
            self._next = list(islice(self._steps, 1))
        return bool(self._next)

    def _whole_steps(self) -> Iterator[list[Batch]]:
        """Yield the batches of each step; too few for a step are left out."""
        while step := list(islice(self._batches, self._batches_a_step)):
            if len(step) == self._batches_a_step:
                yield step

    def _close(self) -> None:
        """End the thread that reads ahead; what has been read is read again where it is wanted."""
        if self._batches is not None:
            self._batches.close()
        self._batches, self._next = None, []
