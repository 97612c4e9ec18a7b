"""A training that goes on without ranks that have died: with what the others hold of it, or from its last commit.

Each rank keeps a copy of what it held before the step that it is in. A step begins with a collective. A rank that has
passed it knows that all ranks have ended the step before. So after a death all survivors have one step in common: in
their copies, or, between two steps, as their current state. They go on from that step if one of them still holds each
slice of it. Else all of them load the last checkpoint.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np

from mpiparallel.communication import world
from mpiparallel.communication.protocol import Communicator
from mpiparallel.context.settings import current_configuration
from mpiparallel.errors import MpiParallelError, RankFailureError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.parallel.configuration import ParallelMode
from mpiparallel.reshard.planning.lost import lost_tensors
from mpiparallel.train.callback.moment import Moment
from mpiparallel.train.elastic.holdings import keys_after, pairs_of, parameters_of
from mpiparallel.train.elastic.leader_message import Refusal, ReshardCommand, decode, encode
from mpiparallel.train.elastic.proposal import Networks, ReshardRequest, TrainingProgress, propose
from mpiparallel.train.elastic.resharding import Arrays, Resharding
from mpiparallel.train.elastic.snapshot import Snapshot
from mpiparallel.train.object_collectives import all_gather_object

VARIABLE: Final = "MPIPARALLEL_ON_FAILURE"
"""``shrink`` lets a training go on without ranks that have died; the launcher sets it."""

_MOST_SECONDS = 60.0
_MOVEMENT = {"executor": "packed"}

Said = dict[str, Any]
Commit = Callable[[], tuple[str, ...]]


class Shrinking:
    """What one rank does to go on when others die.

    ``commit`` returns folder and prefix of the checkpoints that there are, or ().
    """

    def __init__(self, networks: Networks, resharding: Resharding, commit: Commit) -> None:
        self._networks = networks
        self._resharding = resharding
        self._commit = commit
        self._snapshot = Snapshot()
        self._parameters: dict[str, Parameter] = {}
        self._is_between_steps = True
        self.has_begun = False

    def begin_step(self, step: int, position: Mapping[str, Any]) -> None:
        """Copy the state after ``step`` steps, when all ranks have come so far; all that train call it together."""
        if not self._parameters:
            self._parameters = parameters_of(self._networks.all)
        world.current().any_true(False)
        self._snapshot.take(self._parameters, step, dict(position))
        self.has_begun = True
        self._is_between_steps = False

    def end_step(self) -> None:
        """Say that the step has ended here, so that its state is whole."""
        self._is_between_steps = True

    def have_all_ended(self) -> bool:
        """Return, the same on all ranks, whether all live and have come to the end of their training."""
        from mpiparallel.communication.mpi import survival

        with _patience():
            return survival.agreed(self._resharding.membership.everyone, True)

    def recover(self, progress: TrainingProgress) -> ReshardCommand:
        """Go on without the ranks that have died, and return how; all survivors call it together.

        Where the command says so, what the parameters hold is void, and is to be loaded. Raises RankFailureError on all
        of them where the training cannot go on.
        """
        from mpiparallel.communication.mpi import survival

        membership = self._resharding.membership
        before = membership.everyone.ranks
        while True:
            with _patience():
                decided: tuple[ReshardCommand | Refusal, Arrays] | None = None
                try:
                    membership.survive()
                    dead = tuple(rank for rank in before if rank not in membership.everyone.ranks)
                    decided, progress = self._attempt(progress, dead)
                except RankFailureError:
                    survival.revoke(membership.everyone)
                well = survival.agreed(membership.everyone, decided is not None)
            if well and decided is not None:
                break
        command, arrays = decided
        if isinstance(command, Refusal):
            who = f"{told(dead)}, and the others cannot go on without: " if dead else ""
            raise RankFailureError(
                f"Model.train: {who}{command.why}; start the job again, so that it resumes from its last checkpoint"
            )
        for cell in self._networks.all:
            cell.forget_programs()
        self._resharding.take_over(command, parameters_of(self._networks.all), arrays)
        if membership.spares:
            self._resharding.attend()
        self._snapshot.drop()
        self._is_between_steps = not command.reloads
        return command

    def reloaded(self) -> None:
        """Say that what was void has been loaded."""
        self._is_between_steps = True

    def _attempt(
        self, progress: TrainingProgress, dead: tuple[int, ...]
    ) -> tuple[tuple[ReshardCommand | Refusal, Arrays], TrainingProgress]:
        """Agree on how to go on, and have ready all that this takes; nothing is taken over."""
        membership, snapshot = self._resharding.membership, self._snapshot
        if not dead:
            return (Refusal("a collective has failed, but no rank has died"), {}), progress
        parameters = parameters_of(self._networks.all)
        # A move that a death has broken off leaves nothing where it was bounded.
        is_whole = self._is_between_steps and snapshot.is_held(parameters)
        own = {
            "number": membership.number,
            "trains": membership.active,
            "generation": membership.generation,
            "copy": snapshot.step if snapshot.fits(parameters) else -1,
            "copied": snapshot.position,
            "live": progress.step if is_whole else -1,
            "position": progress.position,
        }
        said = all_gather_object(own, membership.everyone)
        trainers = [one for one in said if one["trains"]]
        newest = max((one["generation"] for one in trainers), default=-1)
        leader = next((one["number"] for one in trainers if one["generation"] == newest), None)
        if leader is None:
            return (Refusal("all ranks that trained have died"), {}), progress
        message = encode(self._decision(trainers, progress, dead)) if membership.number == leader else b""
        command = decode(membership.meet(message))
        if not isinstance(command, ReshardCommand):
            return (command if isinstance(command, Refusal) else Refusal("no command was made"), {}), progress
        if command.reloads:
            arrays = self._blank(command)
        else:
            if membership.active and not (self._is_between_steps and progress.step == command.step):
                snapshot.put_back(parameters)
                self._is_between_steps = True
                progress = replace(progress, step=snapshot.step, position=snapshot.position)
            arrays, _ = self._resharding.moved(command, parameters)
        membership.make_ready(command.after)
        return (command, arrays), progress

    def _decision(
        self, trainers: Sequence[Said], progress: TrainingProgress, dead: tuple[int, ...]
    ) -> ReshardCommand | Refusal:
        """Return how to go on, on the rank that leads."""
        command = self._fitting([one["number"] for one in trainers], progress, dead)
        if isinstance(command, Refusal):
            return command
        common = set.intersection(*({(one["generation"], one[kind]) for kind in ("copy", "live")} for one in trainers))
        step = max((step for _, step in common), default=-1)
        lost = lost_tensors({name: pair[0] for name, pair in pairs_of(command).items()}, dead)
        if step >= 0 and not lost:
            return replace(command, step=step, position=_furthest(trainers, step))
        commit = self._commit()
        if commit:
            return replace(command, step=0, position=None, reloads=commit)
        why = f"slices of {lost[0]!r} and {len(lost) - 1} more tensors are lost" if lost else "no step is whole"
        return Refusal(f"{why}, and there is no checkpoint; give Model.train a ModelCheckpoint")

    def _fitting(
        self, numbers: Sequence[int], progress: TrainingProgress, dead: tuple[int, ...]
    ) -> ReshardCommand | Refusal:
        """Return the command for a move to as many of these ranks as the network can be cut for.

        With fewer than half of those that trained, a job that is started again gets further.
        """
        if self._networks.training is not None:
            # Batches of a step that was broken off.
            self._networks.training.sums.forget()
        problem: Exception | None = None
        for count in range(len(numbers), (len(self._resharding.membership.ranks) - 1) // 2, -1):
            options = {**_MOVEMENT, **_stages_for(count)}
            request = ReshardRequest(None, list(numbers[:count]), "wait", False, False, options)
            try:
                return replace(propose(request, self._networks, self._resharding.membership, progress), dead=dead)
            except RankFailureError:
                raise
            except (MpiParallelError, OSError, MemoryError) as error:
                problem = problem or error
        return Refusal(str(problem) if problem else "fewer than half of the ranks that trained are left")

    def _blank(self, command: ReshardCommand) -> Arrays:
        """Return arrays for what this rank is to hold, to be loaded."""
        number, blank = self._resharding.membership.number, {}
        for name, key in keys_after(command, number).items():
            one = command.tensors[name]
            blank[key] = np.zeros(one.target.local_shape(command.after.index(number)), one.spec.dtype)
        return blank


def _stages_for(count: int) -> dict[str, int]:
    """Return the setting with the most stages that this number of ranks can be shared out to."""
    stages = current_configuration().pipeline_stages
    most = next(fewer for fewer in range(stages, 0, -1) if count % fewer == 0)
    return {} if stages == 1 else {"pipeline_stages": most}


def _furthest(trainers: Sequence[Said], step: int) -> dict[str, Any]:
    """Return the furthest position of all ranks after ``step``: a rank does not call its callbacks a second time."""
    places = [one["copied"] for one in trainers if one["copy"] == step]
    places += [one["position"] for one in trainers if one["live"] == step]
    found: dict[str, Any] = max(places, key=lambda place: (Moment(place["moment"]).order, place["told"]))
    return found


def told(dead: Sequence[int]) -> str:
    """Return in words who has died.

    >>> told([5]), told([2, 7])
    ('rank 5 has died', 'ranks 2, 7 have died')
    """
    listed = ", ".join(map(str, dead))
    return f"rank {listed} has died" if len(dead) == 1 else f"ranks {listed} have died"


def is_wanted(communicator: Communicator) -> bool:
    """Return whether a training is to go on without ranks that die, and can; where it cannot, rank 0 says why."""
    together = current_configuration().mode != ParallelMode.STAND_ALONE and communicator.size > 1
    if os.environ.get(VARIABLE) != "shrink" or not together or communicator.library == "threads":
        return False
    # Not above: importing it starts MPI.
    from mpiparallel.communication.mpi import survival

    problem = survival.survival_problem()
    if problem is not None and communicator.rank == 0:
        sys.stderr.write(f"mpiparallel: {VARIABLE}=shrink: the training cannot go on when a rank dies: {problem}\n")
    return problem is None


@contextmanager
def _patience() -> Iterator[None]:
    """End the job if the survivors do not find each other: MPI might let them wait for ever."""
    from mpiparallel.communication.mpi import survival

    timer = threading.Timer(
        _MOST_SECONDS, survival.give_up, [f"the survivors did not agree within {_MOST_SECONDS:g} s"]
    )
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
