"""Where the messages of a schedule go, once it is known what each stage computes in which order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from mpiparallel.errors import ScheduleError
from mpiparallel.pipeline.action import ENDINGS, Action, Kind
from mpiparallel.pipeline.placement import Placement

Orders = Sequence[Sequence[Action]]
"""The computations of each stage, in order."""
_MESSAGES: Final = {
    Kind.FORWARD: (1, Kind.SEND_ACTIVATIONS, Kind.RECEIVE_ACTIVATIONS),
    Kind.INPUT_GRADIENT: (-1, Kind.SEND_GRADIENTS, Kind.RECEIVE_GRADIENTS),
}
"""Where the result of a computation goes, one part on or one back, and by what."""


class StageBorder(NamedTuple):
    """Where a result goes: what says for whom it is ready, and the message, if another stage takes it."""

    ready: bytearray
    peer: int | None
    send: Kind
    receive: Kind
    chunk: int

    def received(self, action: Action, stage: int) -> Action:
        """Return the receive of what ``action`` of ``stage`` gives."""
        return Action(self.receive, action.micro_batch, self.chunk, stage)


_Step = tuple[Action, StageBorder | None]


def with_messages(
    name: str,
    micro_batches: int,
    placement: Placement,
    orders: Orders,
    *,
    merged_backward: bool = False,
    blocking: bool = False,
) -> tuple[tuple[Action, ...], ...]:
    """Return what each stage does: its computations, the messages between them, reduce and update.

    All stages are played in rounds of one computation each. A send follows its computation. Its receive is in the
    peer's list before what the peer computes meanwhile, so the message leaves at once. With ``blocking`` it is put
    there when the send is, stage after stage. Then all lists follow one order of all messages, and sends that wait for
    their receives cannot wait for each other. ``merged_backward`` sends an input gradient only after the weight
    gradient, where that follows at once. Raises ScheduleError for orders in which a stage waits for ever.
    """
    rounds = _Rounds(micro_batches, placement, orders, merged_backward)
    left = sum(map(len, orders))
    while left:
        going = rounds.going()
        if not going:
            raise _stuck(name, orders, rounds.place)
        rounds.play(going, blocking)
        left -= len(going)
    return tuple((*actions, *map(Action, ENDINGS)) for actions in rounds.lists)


class _Rounds:
    """How far each stage is in its order, what it has done, and which results are there."""

    def __init__(self, micro_batches: int, placement: Placement, orders: Orders, merged_backward: bool) -> None:
        self.place = [0] * len(orders)
        self.lists: list[list[Action]] = [[] for _ in orders]
        parts = range(len(placement.stages))
        ready = {kind: [bytearray(micro_batches) for _ in parts] for kind in _MESSAGES}
        for kind, end in ((Kind.FORWARD, parts[0]), (Kind.INPUT_GRADIENT, parts[-1])):
            ready[kind][end][:] = b"\1" * micro_batches
        self.needed = [{kind: [ready[kind][part] for part in held] for kind in ready} for held in placement.parts]
        self.steps: list[list[_Step]] = []
        for order, held in zip(orders, placement.parts, strict=True):
            borders = {kind: [_border(placement, ready, kind, part) for part in held] for kind in ready}
            self.steps.append(
                [
                    (action, borders[kind][action.chunk]) if kind is not None else (action, None)
                    for action, kind in zip(order, _leaving(order, merged_backward), strict=True)
                ]
            )

    def going(self) -> list[int]:
        """Return the stages whose next computation has all that it needs of others."""
        found = []
        for stage, place in enumerate(self.place):
            steps = self.steps[stage]
            if place < len(steps):
                kind, micro_batch, chunk, _ = steps[place][0]
                if kind is Kind.WEIGHT_GRADIENT or self.needed[stage][kind][chunk][micro_batch]:
                    found.append(stage)
        return found

    def play(self, going: Sequence[int], blocking: bool) -> None:
        """Let each of these stages compute once; what that gives is there for others from the next round on."""
        lists = self.lists
        ended = []
        steps = [(stage, *self.steps[stage][self.place[stage]]) for stage in going]
        if not blocking:
            for stage, action, border in steps:
                if border is not None and border.peer is not None:
                    lists[border.peer].append(border.received(action, stage))
        for stage, action, border in steps:
            lists[stage].append(action)
            self.place[stage] += 1
            if border is not None:
                ended.append((border.ready, action.micro_batch))
                if border.peer is not None:
                    lists[stage].append(Action(border.send, action.micro_batch, action.chunk, border.peer))
                    if blocking:
                        lists[border.peer].append(border.received(action, stage))
        for ready, micro_batch in ended:
            ready[micro_batch] = 1


def _leaving(order: Sequence[Action], merged_backward: bool) -> list[Kind | None]:
    """Return for each computation whose result leaves once it is done; None where none does."""
    kinds: list[Kind | None] = [None if action.kind is Kind.WEIGHT_GRADIENT else action.kind for action in order]
    if merged_backward:
        for place in range(len(order) - 1):
            if order[place + 1] == order[place]._replace(kind=Kind.WEIGHT_GRADIENT):
                kinds[place], kinds[place + 1] = None, kinds[place]
    return kinds


def _border(placement: Placement, ready: dict[Kind, list[bytearray]], kind: Kind, part: int) -> StageBorder:
    step, send, receive = _MESSAGES[kind]
    target = part + step
    if not 0 <= target < len(placement.stages):
        # Nobody takes the result at the ends of the network.
        return StageBorder(bytearray(len(ready[kind][part])), None, send, receive, 0)
    peer = placement.stages[target]
    own = peer == placement.stages[part]
    return StageBorder(ready[kind][target], None if own else peer, send, receive, placement.chunks[target])


def _stuck(name: str, orders: Orders, place: Sequence[int]) -> ScheduleError:
    waiting = (
        f"stage {stage} waits with {order[at]}"
        for stage, (order, at) in enumerate(zip(orders, place, strict=True))
        if at < len(order)
    )
    return ScheduleError(
        f'schedule "{name}": rule "no deadlock": {", ".join(waiting)}, each for what another of them computes only '
        "later; put computations after those that they need"
    )
