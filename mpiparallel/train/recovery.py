"""What a run of ``Model.train`` does about ranks that have died: with whom it goes on, from which step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mpiparallel.errors import CheckpointError
from mpiparallel.train.callback.callback import Callback, CallbackParameters
from mpiparallel.train.callback.checkpoint import ModelCheckpoint
from mpiparallel.train.elastic.leader_message import ReshardCommand
from mpiparallel.train.elastic.proposal import TrainingProgress
from mpiparallel.train.elastic.shrinking import told
from mpiparallel.train.object_collectives import world_or_alone
from mpiparallel.train.persistence.resume import Resumption, resume
from mpiparallel.train.persistence.training_record import facts_of
from mpiparallel.train.training_session import TrainingSession


class Recovery:
    """The deaths in one run, and what is still to be done about them; ``shrinking`` is None where they end the job."""

    def __init__(self, session: TrainingSession, callbacks: Sequence[Callback]) -> None:
        self._session = session
        self._callbacks = callbacks
        self._command: ReshardCommand | None = None
        self._dead: tuple[int, ...] = ()
        self._source = ""
        self.shrinking = session.shrinking(self._commit)

    @property
    def is_due(self) -> bool:
        """Whether this rank has met the other survivors, but does not train with them yet."""
        return self._command is not None

    @property
    def survives(self) -> bool:
        """Whether this rank can go on when others die now; not before the first step has begun."""
        return self.shrinking is not None and self.shrinking.has_begun

    def have_all_ended(self) -> bool:
        """Return whether all ranks live and have ended their training; all call it together."""
        return self.shrinking is None or self.shrinking.have_all_ended()

    def meet(self, progress: TrainingProgress) -> ReshardCommand | None:
        """Meet the other survivors, and return how they go on."""
        if self.shrinking is None:
            return None
        command = self.shrinking.recover(progress)
        if self._session.active:
            self._command, self._dead = command, self._dead + command.dead
        else:
            # Who waits while the others go on is called by them later, as any spare.
            self._command, self._dead = None, ()
        self._session.step = command.step
        return command

    def load(self, parameters: CallbackParameters) -> Resumption | None:
        """Load the last checkpoint where that is how to go on; all that train call it together.

        Raises CheckpointError on all of them where it cannot be read.
        """
        self._source = "slices of replicas"
        if self._command is None or self.shrinking is None or not self._command.reloads:
            return None
        session, (folder, prefix) = self._session, self._command.reloads
        facts = facts_of(session.training, parameters.train_dataset, parameters.pieces)
        found = resume(Path(folder), prefix, parameters.staged, facts, True, world_or_alone())
        if found is None:
            raise CheckpointError(f"Model.train: {told(self._dead)}, and {folder} has no checkpoint to go on from")
        self.shrinking.reloaded()
        session.resumed, session.step = found, found.step
        self._source = f"checkpoint {found.name}, step {found.step}"
        return found

    def end(self, parameters: CallbackParameters) -> None:
        """Say, on the first rank, how the training goes on."""
        self._command = None
        dead, self._dead = self._dead, ()
        if parameters.rank == 0:
            count, spares = parameters.device_number, len(self._session.resharding.membership.spares)
            who = "1 rank goes" if count == 1 else f"{count} ranks go"
            waiting = f"; {spares} more {'waits' if spares == 1 else 'wait'}" if spares else ""
            where = f"from step {self._session.step} ({self._source})"
            print(f"Model.train: {told(dead)}; {who} on {where}{waiting}", flush=True)

    def _commit(self) -> tuple[str, ...]:
        """Return folder and prefix of the checkpoints of this training; () where it has none."""
        for callback in self._callbacks:
            if isinstance(callback, ModelCheckpoint) and callback.committed is not None:
                folder, prefix = callback.committed
                return str(folder.absolute()), prefix
        resumed = self._session.resumed
        return () if resumed is None else (str(resumed.folder.absolute()), resumed.prefix)
