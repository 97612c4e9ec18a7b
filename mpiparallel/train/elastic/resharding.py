"""The move of a training to other ranks or another strategy: agreed, moved, and only then taken over."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mpiparallel import errors
from mpiparallel.communication.agreement import raise_together
from mpiparallel.context.settings import all_settings, current_configuration, take_settings
from mpiparallel.errors import ConfigurationError, MpiParallelError, ReshardError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.parallel.compile import make_backend
from mpiparallel.reshard.movement import Movement
from mpiparallel.reshard.options import ReshardOptions
from mpiparallel.reshard.report import ReshardReport
from mpiparallel.train.elastic.holdings import array_received, arrays_to_send, pairs_of, parameters_of
from mpiparallel.train.elastic.operator_cuts import operators_of, set_cuts
from mpiparallel.train.elastic.order import Ending, Message, Order, Refusal, settings_for, decode, encode
from mpiparallel.train.elastic.proposal import Networks, Wish, propose
from mpiparallel.train.elastic.team import Team

_DIGEST_BYTES = 16
_SAVE_FILE = "strategy_ckpt_save_file"


class Resharding:
    """What a model does to move: it holds who trains, and changes it."""

    def __init__(self, networks: Networks, team: Team) -> None:
        self._networks = networks
        self.team = team
        self.step = 0

    def ask(self, wish: Wish, step: int, position: dict[str, Any] | None) -> ReshardReport:
        """Agree with all who train on an order, tell the spares, and carry it out; spares only listen.

        Raises on every rank, before anything moves, what is wrong with the wish on one of them.
        """
        if self.team.has_left:
            raise ConfigurationError(
                "Model.reshard: this rank has left the job (retire='end'); let ranks that are to come back wait "
                "(retire='wait')"
            )
        if not self.team.active:
            return self._take_part()
        order, problem = None, None
        try:
            order = propose(wish, self._networks, self.team, step, position)
        except MpiParallelError as error:
            problem = error
        problem = self._common_problem(order, problem)
        if problem is not None:
            self._tell(Refusal(str(problem)))
            raise problem
        if order is None:
            raise ReshardError("Model.reshard: no order was made")
        self._tell(order)
        return self.carry_out(order)

    def _take_part(self) -> ReshardReport:
        message = self.hear()
        if isinstance(message, Order):
            return self.carry_out(message)
        raise ReshardError(f"Model.reshard: the ranks that train have refused: {message.why}")

    def hear(self) -> Message:
        """Wait, as a spare, for what the leader says."""
        return decode(self.team.hear())

    def _tell(self, message: Message) -> None:
        if self.team.leads:
            self.team.tell(encode(message))

    def end(self, error: BaseException | None) -> None:
        """Let the spares go, because the training has ended; on every rank that trains."""
        if error is None:
            self._tell(Ending())
        else:
            self._tell(Ending(type(error).__name__, str(error)))

    def _common_problem(self, order: Order | None, problem: MpiParallelError | None) -> MpiParallelError | None:
        """Return what is wrong on some rank: its own words where it is this one, and whether all ask for the same."""
        world = self.team.world
        try:
            raise_together(None if problem is None else str(problem), world, ReshardError)
        except ReshardError as error:
            return problem or error
        if order is None:
            return problem
        digest = np.frombuffer(_digest(order), np.uint8)
        digests = np.empty((world.size, _DIGEST_BYTES), np.uint8)
        world.all_gather(digest, digests)
        unlike = [self.team.ranks[member] for member in np.flatnonzero((digests != digests[0]).any(axis=1))]
        if not unlike:
            return None
        return ReshardError(
            f"Model.reshard: ranks {unlike} ask for something else than rank {self.team.ranks[0]}; call it on all ranks "
            "at the same step, with the same arguments"
        )

    def carry_out(self, order: Order) -> ReshardReport:
        """Move the state as the order says, on everyone, and take over what it says of this rank.

        Raises ReshardError on every rank if it cannot be done; then all is as before.
        """
        team = self.team
        parameters = parameters_of(self._networks.all)
        raise_together(self._unfit(order, parameters), team.everyone, ReshardError)
        for cell in self._networks.all:
            cell.forget_programs()
        pairs = pairs_of(order)
        source = {name: pair[0] for name, pair in pairs.items()}
        target = {name: pair[1] for name, pair in pairs.items()}
        options = ReshardOptions(**order.options)
        movement = Movement(arrays_to_send(order, team.number, parameters), source, target, team.everyone, options)
        report = movement.forward()
        self._take_over(order, parameters, movement.arrays)
        return report

    def _unfit(self, order: Order, parameters: Mapping[str, Parameter]) -> str | None:
        """Return why this rank cannot take part."""
        joins = self.team.number in order.after and not self.team.active
        for name, one in order.tensors.items() if joins else ():
            found = parameters.get(name)
            if found is None or found.spec != one.spec:
                what = "it has none of this name" if found is None else f"here it is {found.spec}"
                return f"parameter {name!r} is {one.spec} on the ranks that train, but {what}; make the same model"
        missing = [place for place in order.cuts if joins and place not in operators_of(self._networks.all[0])]
        return f"the operator {missing[0]!r} is not in the network here; make the same model" if missing else None

    def _take_over(
        self, order: Order, parameters: Mapping[str, Parameter], arrays: Mapping[str, np.ndarray[Any, Any]]
    ) -> None:
        was_active = self.team.active
        if self._networks.training is not None:
            for total in self._networks.training.sums.totals:
                total.forget()
        self.team.switch(order.after, order.leaving)
        if not self.team.active:
            for name in order.tensors if was_active else ():
                parameters[name].leave()
            return
        rank = order.after.index(self.team.number)
        self._take_settings(order, rank)
        backend = make_backend(current_configuration())
        for name, one in order.tensors.items():
            array = array_received(order, self.team.number, name, arrays)
            parameters[name].move(one.target, rank, array if backend.name == "cpu" else backend.from_host(array))
        if self._networks.training is not None:
            self._networks.training.program.feed = order.feed
        self.step = order.step

    def _take_settings(self, order: Order, rank: int) -> None:
        now = all_settings()
        parallel = settings_for(order.parallel, len(order.after), rank)
        if rank:
            # Which ranks write it is their own affair, but the first always does.
            parallel[_SAVE_FILE] = now.parallel[_SAVE_FILE]
        take_settings(replace(now, parallel=parallel, seed=order.seed, loaded_strategies=order.strategies))
        set_cuts(self._networks.all[0], order.cuts)


def _digest(order: Order) -> bytes:
    same = replace(order, parallel={**order.parallel, _SAVE_FILE: ""})
    return hashlib.blake2b(encode(same), digest_size=_DIGEST_BYTES).digest()


def error_of(ending: Ending) -> MpiParallelError:
    """Return the error that ended a training on the ranks that trained, for those that waited."""
    kind = getattr(errors, ending.error, MpiParallelError)
    return kind(f"Model.train: the training that this rank waited for has ended: {ending.error}: {ending.why}")  # type: ignore[no-any-return]
