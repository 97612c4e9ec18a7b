"""The move of a training to other ranks or another strategy: agreed, moved, and only then taken over."""

from __future__ import annotations

import atexit
import hashlib
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from mpiparallel.backend.collector_pause import collector_paused
from mpiparallel.backend.freed_memory import give_back_freed_memory
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication import world
from mpiparallel.communication.agreement import failing_together, raise_together
from mpiparallel.compile.bind import make_backend
from mpiparallel.context.settings import all_settings, current_configuration, take_settings
from mpiparallel.errors import ConfigurationError, MpiParallelError, ReshardError, name_origins, origins_of
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.device_space import DeviceSpace, moves_on_devices, on_device
from mpiparallel.reshard.array_space import ArraySpace
from mpiparallel.reshard.movement import Movement
from mpiparallel.reshard.options import ReshardOptions
from mpiparallel.reshard.planning.plan_cache import PlanCache
from mpiparallel.reshard.report import ReshardReport
from mpiparallel.train.elastic.holdings import keys_after, keys_before, pairs_of, parameters_of
from mpiparallel.train.elastic.leader_message import (
    LeaderMessage,
    PreemptionEnd,
    Refusal,
    ReshardCommand,
    Shutdown,
    SpawnRequest,
    TrainingEnd,
    decode,
    encode,
    settings_for,
)
from mpiparallel.train.elastic.membership import Membership
from mpiparallel.train.elastic.operator_cuts import operators_of, set_cuts, set_stages
from mpiparallel.train.elastic.proposal import Networks, ReshardRequest, TrainingProgress, propose
from mpiparallel.train.preemption import Preempted, known_to_any

Arrays = MutableMapping[str, np.ndarray[Any, Any]]

_DIGEST_BYTES = 16
_SAVE_FILE = "strategy_ckpt_save_file"


class Resharding:
    """What a model does to move: it holds who trains, and changes it.

    ``signal`` is the number of the signal of preemption if any rank, spares too, had been sent it when it moved last.
    """

    def __init__(self, networks: Networks, membership: Membership) -> None:
        self._networks = networks
        self.membership = membership
        self.step = 0
        self.signal = 0
        self._plans = PlanCache()
        self._attends = False
        self._is_over = False

    @collector_paused()
    def ask(self, request: ReshardRequest, progress: TrainingProgress) -> ReshardReport:
        """Agree with all who train on a command, tell the spares, and carry it out; spares only listen.

        Raises on every rank, before anything moves, what is wrong with the request on one of them.
        """
        if self.membership.has_left:
            raise ConfigurationError(
                "Model.reshard: this rank has left the job (retire='end'); let ranks that are to come back wait "
                "(retire='wait')"
            )
        if not self.membership.active:
            return self._take_part()
        command: ReshardCommand | None = None
        problem: MpiParallelError | None = None
        try:
            command = propose(request, self._networks, self.membership, progress)
        except (MpiParallelError, OSError, MemoryError) as error:
            problem = error if isinstance(error, MpiParallelError) else ReshardError(f"Model.reshard: {error}")
        problem = self._common_problem(command, problem)
        if problem is not None:
            self._tell(Refusal(str(problem), self._origins(problem)))
            raise problem
        if command is None:
            raise ReshardError("Model.reshard: no command was made")
        missing = len(set(command.after) - set(self.membership.everyone.ranks))
        if missing:
            self._tell(SpawnRequest(missing))
            self.membership.grow(missing)
            self.membership.meet(encode(command) if self.membership.leads else b"")
        else:
            self._tell(command)
        return self.carry_out(command)

    def grow(self, request: SpawnRequest) -> LeaderMessage:
        """Start processes with those that train, as a spare, and return what everyone is told then."""
        self.membership.grow(request.count)
        return decode(self.membership.meet())

    def meet(self) -> LeaderMessage:
        """Join those that have started this process, as a spare of theirs, and return what everyone is told."""
        message = decode(self.membership.meet())
        if isinstance(message, ReshardCommand):
            self.membership.join(message.before)
        return message

    def _take_part(self) -> ReshardReport:
        message = self.hear()
        if isinstance(message, SpawnRequest):
            message = self.grow(message)
        if isinstance(message, ReshardCommand):
            return self.carry_out(message)
        if not isinstance(message, Refusal):
            raise ReshardError("Model.reshard: the ranks that train have refused: their training has ended")
        refused = ReshardError(f"Model.reshard: the ranks that train have refused: {message.why}")
        raise name_origins(refused, message.origins)

    def hear(self) -> LeaderMessage:
        """Wait, as a spare, for what the leader says; raise Preempted where those who train are."""
        message = decode(self.membership.hear())
        if isinstance(message, PreemptionEnd):
            raise Preempted(message.code, message.why)
        self._is_over = isinstance(message, Shutdown)
        return message

    def _tell(self, message: LeaderMessage) -> None:
        if self.membership.leads:
            self.membership.tell(encode(message))

    def _origins(self, error: BaseException) -> tuple[int, ...]:
        return origins_of(error) or (self.membership.number,)

    def end(self, error: BaseException | None) -> None:
        """Let the spares go, because the training has ended; on every rank that trains."""
        if isinstance(error, Preempted):
            self._tell(PreemptionEnd(error.code, error.why))
        elif error is None or (isinstance(error, SystemExit) and not error.code):
            self._tell(TrainingEnd())
        else:
            self._tell(TrainingEnd(type(error).__name__, str(error), self._origins(error)))

    def _attend_at_exit(self) -> None:
        """See to it, when the program of this rank ends, that no rank waits for one that has ended.

        A spare goes on listening, asleep, and refuses to be called; the leader says when there is nothing more to hear.
        """
        if not world.initialised() or self.membership.has_left:
            return
        self._tell(Shutdown())
        while not self.membership.active and not self._is_over:
            # What this rank had to do is done, so its own exit code stays.
            with suppress(ReshardError, Preempted):
                message = self.hear()
                if isinstance(message, SpawnRequest):
                    message = self.grow(message)
                if isinstance(message, ReshardCommand):
                    raise_together("its program has ended, so it cannot train", self.membership.everyone, ReshardError)

    def _common_problem(
        self, command: ReshardCommand | None, problem: MpiParallelError | None
    ) -> MpiParallelError | None:
        """Return what is wrong on some rank: its own words where it is this one, and whether all ask for the same."""
        world = self.membership.world
        try:
            raise_together(None if problem is None else str(problem), world, ReshardError)
        except ReshardError as error:
            return problem or error
        if command is None:
            return problem
        digest = np.frombuffer(_digest(command), np.uint8)
        digests = np.empty((world.size, _DIGEST_BYTES), np.uint8)
        world.all_gather(digest, digests)
        unlike = [self.membership.ranks[member] for member in np.flatnonzero((digests != digests[0]).any(axis=1))]
        if not unlike:
            return None
        odd = ReshardError(
            f"Model.reshard: ranks {unlike} ask for something else than rank {self.membership.ranks[0]}; call it on "
            "all ranks at the same step, with the same arguments"
        )
        return name_origins(odd, unlike)

    @collector_paused()
    def carry_out(self, command: ReshardCommand) -> ReshardReport:
        """Move the state as the command says, on everyone, and take over what it says of this rank.

        Raises ReshardError on every rank if it cannot be done; then all is as before.
        """
        membership = self.membership
        parameters = parameters_of(self._networks.all)
        raise_together(self._unfit(command, parameters), membership.everyone, ReshardError)
        for cell in self._networks.all:
            cell.forget_programs()
        arrays, report = self.moved(command, parameters)
        # A rank that is not to train any more could tell nobody later.
        self.signal = known_to_any(membership.everyone)
        self.take_over(command, parameters, arrays)
        give_back_freed_memory()
        self.attend()
        return report

    def attend(self) -> None:
        """See to it that no rank waits for this one when its program has ended."""
        if not self._attends and self.membership.everyone.library != "threads":
            # The end of a thread rank is noticed by those who wait for it.
            atexit.register(self._attend_at_exit)
            self._attends = True

    def moved(self, command: ReshardCommand, parameters: Mapping[str, Parameter]) -> tuple[Arrays, ReshardReport]:
        """Return what this rank holds afterwards by the names under which it moves, and what was moved.

        In bounded mode no parameter keeps its old array while that moves; after an error all have them again.
        """
        membership = self.membership
        keys = keys_before(command, membership.number)
        options = ReshardOptions(**command.options)
        space = self._space(options)
        arrays = self._arrays({key: parameters[name] for name, key in keys.items()}, space)
        pairs = pairs_of(command)
        source, target = ({name: pair[side] for name, pair in pairs.items()} for side in (0, 1))
        if options.mode == "safe":
            movement = Movement(arrays, source, target, membership.everyone, options, self._plans, command.dead, space)
            report = movement.forward()
            return movement.arrays, report
        holders = {parameters[name]: keys[name] for name in keys}
        return self._moved_in_waves(arrays, source, target, options, holders, space)

    def _space(self, options: ReshardOptions) -> ArraySpace | None:
        """Return the memory of the devices, where all ranks have theirs there; None for that of the hosts."""
        backend, everyone = make_backend(current_configuration()), self.membership.everyone
        return DeviceSpace(backend, options, everyone) if moves_on_devices(backend, options, everyone) else None

    def _arrays(self, parameters: Mapping[str, Parameter], space: ArraySpace | None) -> Arrays:
        """Return what this rank gives, by the names under which it moves, where it is to move."""
        if space is None:
            return {key: parameter.asnumpy() for key, parameter in parameters.items()}
        arrays: Arrays = {}
        with failing_together(self.membership.everyone, ReshardError):
            backend = make_backend(current_configuration())
            arrays.update({key: on_device(one.array, backend, key) for key, one in parameters.items()})
        return arrays

    def _moved_in_waves(
        self,
        arrays: Arrays,
        source: dict[str, Layout],
        target: dict[str, Layout],
        options: ReshardOptions,
        holders: Mapping[Parameter, str],
        space: ArraySpace | None,
    ) -> tuple[Arrays, ReshardReport]:
        """Move arrays that nothing else holds meanwhile; after an error ``holders`` hold again what is in its place."""
        places = {parameter: (parameter.layout, parameter.rank) for parameter in holders}
        for parameter in holders:
            parameter.leave()
        layouts = dict(source)
        try:
            movement = Movement(arrays, source, target, self.membership.everyone, options, self._plans, space=space)
            layouts = movement.layouts
            return movement.arrays, _forward_or_back(movement)
        except ReshardError:
            for parameter, key in holders.items():
                layout, rank = places[parameter]
                if layouts[key] == source[key] and layout is not None:
                    parameter.move(layout, rank, arrays[key])
            raise

    def _unfit(self, command: ReshardCommand, parameters: Mapping[str, Parameter]) -> str | None:
        """Return why this rank cannot take part."""
        joins = self.membership.number in command.after and not self.membership.active
        for name, one in command.tensors.items() if joins else ():
            found = parameters.get(name)
            if found is None or found.spec != one.spec:
                what = "it has none of this name" if found is None else f"here it is {_described(found.spec)}"
                there = _described(one.spec)
                return f"parameter {name!r} is {there} on the ranks that train, but {what}; make the same model"
        operators = operators_of(self._networks.all[0]) if joins else command.cuts
        missing = [place for place in command.cuts if place not in operators]
        return f"the operator {missing[0]!r} is not in the network here; make the same model" if missing else None

    def take_over(self, command: ReshardCommand, parameters: Mapping[str, Parameter], arrays: Arrays) -> None:
        """Be what the command makes of this rank, with what it is to hold by the names under which it has moved."""
        was_active = self.membership.active
        if self._networks.training is not None:
            for total in self._networks.training.sums.totals:
                total.forget()
        self.membership.switch(command.after, command.leaving)
        if not self.membership.active:
            for name in command.tensors if was_active else ():
                parameters[name].leave()
            return
        rank = command.after.index(self.membership.number)
        self._take_settings(command, rank)
        backend = make_backend(current_configuration())
        keys = keys_after(command, self.membership.number)
        for name, one in command.tensors.items():
            if name not in keys:
                parameters[name].leave(one.target, rank)
                continue
            array = arrays[keys[name]]
            parameters[name].move(one.target, rank, array if backend.links is None else on_device(array, backend, name))
        self._networks.all[0].program.signature = command.signature
        self.step = command.step

    def _take_settings(self, command: ReshardCommand, rank: int) -> None:
        now = all_settings()
        parallel = settings_for(command.parallel, len(command.after), rank)
        if rank:
            # Which ranks write it is their own affair, but the first always does.
            parallel[_SAVE_FILE] = now.parallel[_SAVE_FILE]
        stream: dict[str, Any] = {"seed": command.seed, "draws": command.draws}
        take_settings(replace(now, parallel=parallel, loaded_strategies=command.strategies, **stream))
        set_cuts(self._networks.all[0], command.cuts)
        set_stages(self._networks.all[0], command.stages)


def _forward_or_back(movement: Movement) -> ReshardReport:
    try:
        return movement.forward()
    except ReshardError as error:
        try:
            movement.back()
        except ReshardError as again:
            raise ReshardError(
                f"{error}\nModel.reshard: nor could what had moved be moved back ({again}); load the last checkpoint"
            ) from error
        raise


def _described(spec: TensorSpec) -> str:
    return f"{spec.dtype} of shape {spec.shape}"


def _digest(command: ReshardCommand) -> bytes:
    same = replace(command, parallel={**command.parallel, _SAVE_FILE: ""}, draws=0)
    return hashlib.blake2b(encode(same), digest_size=_DIGEST_BYTES).digest()
