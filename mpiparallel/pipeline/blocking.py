"""Whether a schedule would end even if each send waited for its receive, in order."""

from __future__ import annotations

from typing import Final

from mpiparallel.pipeline.action import Action, Kind
from mpiparallel.pipeline.schedule import Schedule

_SHOWN: Final = 3
_SENDS: Final = {Kind.SEND_ACTIVATIONS: Kind.RECEIVE_ACTIVATIONS, Kind.SEND_GRADIENTS: Kind.RECEIVE_GRADIENTS}
_STEP: Final = {Kind.SEND_ACTIVATIONS: 1, Kind.SEND_GRADIENTS: -1}


def stuck_if_blocking(schedule: Schedule) -> str:
    """Return who would wait for whom for ever if sends and receives blocked; nothing where none would.

    Blocking means two things. A send ends when its receive is reached, as that of a large message does. The messages
    from one stage to another are taken in the order in which they are sent. The lists must have passed `check_lists`.

    >>> from mpiparallel.pipeline import make_schedule
    >>> stuck_if_blocking(make_schedule("zb_v", stages=4, micro_batches=8, blocking=True))
    ''
    """
    messages = [[action for action in actions if action.peer is not None] for actions in schedule.actions]
    place = [0] * schedule.stages
    going = list(range(schedule.stages))
    while going:
        stage = going.pop()
        while place[stage] < len(messages[stage]):
            action = messages[stage][place[stage]]
            peer = action.peer or 0
            other = messages[peer][place[peer]]
            is_send = action.kind in _SENDS
            sender, send, receive = (stage, action, other) if is_send else (peer, other, action)
            if not _meet(schedule, sender, send, receive):
                break
            place[stage] += 1
            place[peer] += 1
            going.append(peer)
    waiting = [
        f"stage {stage} would wait in {actions[at]}"
        for stage, (actions, at) in enumerate(zip(messages, place, strict=True))
        if at < len(actions)
    ]
    return ", ".join([*waiting[:_SHOWN], *(["..."] if len(waiting) > _SHOWN else [])])


def _meet(schedule: Schedule, sender: int, send: Action, receive: Action) -> bool:
    """Return whether the next message of a stage is the one that the next receive of its peer takes."""
    if receive.kind is not _SENDS.get(send.kind) or send.micro_batch != receive.micro_batch or receive.peer != sender:
        return False
    taken = schedule.placement.parts[send.peer or 0][receive.chunk]
    return taken == schedule.placement.parts[sender][send.chunk] + _STEP[send.kind]
