"""What each stage's list must hold by itself: all that is to do, once, and each action after those that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from mpiparallel.errors import ScheduleError
from mpiparallel.pipeline.action import COMPUTATIONS, ENDINGS, Action, Kind
from mpiparallel.pipeline.placement import Placement
from mpiparallel.pipeline.schedule import Schedule

_BITS: Final = tuple(1 << kind for kind in Kind)
_RECEIVES: Final = (Kind.RECEIVE_ACTIVATIONS, Kind.RECEIVE_GRADIENTS)


class Rule(NamedTuple):
    """What an action needs: bits of its own micro-batch and chunk, another chunk's computation, its peer."""

    needs: int = 0
    neighbour: int | None = None
    peer: int | None = None


def broken(schedule: Schedule, stage: int, action: Action | None, rule: str, problem: str) -> ScheduleError:
    """Return the error that names schedule, stage, action, and the rule that it breaks."""
    where = f"stage {stage}" if action is None else f"stage {stage}, {action} ({action.kind.words})"
    return ScheduleError(f'schedule "{schedule.name}": {where}: rule "{rule}": {problem}')


def check_lists(schedule: Schedule) -> None:
    """Raise ScheduleError unless each stage's list is complete and in an order that its own actions allow."""
    stages = len(schedule.placement.parts)
    if schedule.stages != stages:
        raise ScheduleError(
            f'schedule "{schedule.name}": rule "complete": there are lists of {schedule.stages} stages, and the parts '
            f"name {stages}; give each stage one list"
        )
    check_known(schedule)
    for stage in range(stages):
        _check_list(schedule, stage)


def check_known(schedule: Schedule) -> None:
    """Raise ScheduleError where an action names a micro-batch or a chunk that is not there."""
    for stage, (actions, held) in enumerate(zip(schedule.actions, schedule.placement.parts, strict=True)):
        chunks, count = len(held), schedule.micro_batches
        for action in actions:
            if not (0 <= action.micro_batch < count and 0 <= action.chunk < chunks):
                there = f"micro-batches 0 to {count - 1}, and chunks 0 to {chunks - 1} of this stage"
                raise broken(schedule, stage, action, "known", f"there are {there}; name one of them")


def _check_list(schedule: Schedule, stage: int) -> None:
    table = rules_of(schedule.placement, stage)
    actions = schedule.actions[stage]
    done = [[0] * schedule.micro_batches for _ in table]
    body = actions[:-2] if tuple(action.kind for action in actions[-2:]) == ENDINGS else actions
    for action in body:
        kind, micro_batch, chunk, peer = action
        rule = table[chunk][kind]
        have = done[chunk][micro_batch]
        if (
            rule is None
            or rule.peer != peer
            or have & _BITS[kind]
            or have & rule.needs != rule.needs
            or (rule.neighbour is not None and not done[rule.neighbour][micro_batch] & _BITS[kind])
        ):
            raise _explained(schedule, stage, action, rule, have)
        done[chunk][micro_batch] = have | _BITS[kind]
    _check_complete(schedule, stage, table, done, body is not actions)


def rules_of(placement: Placement, stage: int) -> list[list[Rule | None]]:
    """Return for each chunk of a stage, by kind, what an action needs; None for what it does not have."""
    table = []
    for chunk, part in enumerate(placement.parts[stage]):
        before, behind = placement.before(stage, chunk), placement.behind(stage, chunk)
        receives, answers = before not in (None, stage), behind not in (None, stage)
        rules: list[Rule | None] = [None] * len(Kind)
        rules[Kind.FORWARD] = Rule(
            _BITS[Kind.RECEIVE_ACTIVATIONS] if receives else 0,
            placement.chunks[part - 1] if before == stage else None,
        )
        rules[Kind.INPUT_GRADIENT] = Rule(
            _BITS[Kind.FORWARD] | (_BITS[Kind.RECEIVE_GRADIENTS] if answers else 0),
            placement.chunks[part + 1] if behind == stage else None,
        )
        rules[Kind.WEIGHT_GRADIENT] = Rule(_BITS[Kind.INPUT_GRADIENT])
        if receives:
            rules[Kind.RECEIVE_ACTIVATIONS] = Rule(peer=before)
            rules[Kind.SEND_GRADIENTS] = Rule(_BITS[Kind.INPUT_GRADIENT], peer=before)
        if answers:
            rules[Kind.SEND_ACTIVATIONS] = Rule(_BITS[Kind.FORWARD], peer=behind)
            rules[Kind.RECEIVE_GRADIENTS] = Rule(peer=behind)
        table.append(rules)
    return table


def _explained(schedule: Schedule, stage: int, action: Action, rule: Rule | None, have: int) -> ScheduleError:
    """Return what an action breaks that has been found to break something."""
    kind = action.kind
    if kind in ENDINGS:
        problem = "a stage reduces and updates once, after everything else; let its list end with R U"
        return broken(schedule, stage, action, "reduce and update last", problem)
    if rule is None:
        problem = "no other stage holds the part next to this chunk there, so there is no such message; leave it out"
        return broken(schedule, stage, action, "one message a border", problem)
    if rule.peer != action.peer:
        where = (
            "a computation has no peer" if rule.peer is None else f"the part next to this chunk is on stage {rule.peer}"
        )
        right = action._replace(peer=rule.peer)
        return broken(schedule, stage, action, "one message a border", f"{where}; write {right}")
    if have & _BITS[kind]:
        return broken(schedule, stage, action, "once", "it is in the list twice; leave one out")
    missing = [action._replace(kind=need) for need in Kind if rule.needs & ~have & _BITS[need]]
    table = rules_of(schedule.placement, stage)
    named = [need._replace(peer=_peer(table, need)) for need in missing]
    if not named and rule.neighbour is not None:
        named = [Action(kind, action.micro_batch, rule.neighbour)]
    return broken(schedule, stage, action, "order", f"it needs {named[0]}, which is not before it; put that first")


def _peer(table: Sequence[Sequence[Rule | None]], action: Action) -> int | None:
    rule = table[action.chunk][action.kind]
    return None if rule is None else rule.peer


def _check_complete(
    schedule: Schedule, stage: int, table: Sequence[Sequence[Rule | None]], done: Sequence[Sequence[int]], ends: bool
) -> None:
    missing: list[Action] = []
    for chunk, (rules, states) in enumerate(zip(table, done, strict=True)):
        kinds = [kind for kind in Kind if rules[kind] is not None]
        full = sum(_BITS[kind] for kind in kinds)
        missing += (
            Action(kind, micro_batch, chunk, _peer(table, Action(kind, micro_batch, chunk)))
            for micro_batch, state in enumerate(states)
            if state != full
            for kind in kinds
            if not state & _BITS[kind]
        )
    if missing:
        shown = ", ".join(map(str, missing[:3])) + (", ..." if len(missing) > 3 else "")
        problem = f"{len(missing)} of its actions are missing: {shown}; add them"
        raise broken(schedule, stage, None, "complete", problem)
    if not ends:
        raise broken(schedule, stage, None, "complete", "its list does not end with R U (reduce, update); add them")


def held_activations(schedule: Schedule, stage: int) -> float:
    """Return the most activations that a stage holds: 1 is those of one micro-batch through all of its chunks.

    They are held from the forward pass of a chunk to the end of its weight gradient.
    """
    forward, _, weight_gradient = COMPUTATIONS
    live = most = 0
    for action in schedule.actions[stage]:
        kind = action[0]
        if kind is forward:
            live += 1
            most = max(most, live)
        elif kind is weight_gradient:
            live -= 1
    return most / len(schedule.placement.parts[stage])


def computed_together(schedule: Schedule, stage: int) -> frozenset[Action]:
    """Return the weight gradients that a stage computes layer by layer with their input gradient.

    Each follows it at once, and nobody waits for that: it is sent to no other stage before. Then the gradients of one
    layer at a time are held for them. The first part of the network has weight gradients alone.
    """
    parts = schedule.placement.parts[stage]
    done = [one for one in schedule.actions[stage] if one.kind not in _RECEIVES]
    return frozenset(
        later
        for earlier, later in pairwise(done)
        if later.kind is Kind.WEIGHT_GRADIENT
        and earlier == later._replace(kind=Kind.INPUT_GRADIENT)
        and parts[later.chunk] > 0
    )


def held_with_gradients(schedule: Schedule, stage: int) -> float:
    """Return the most activations and gradients that a stage holds, where both of a chunk are equally many.

    Gradients are held from the input gradient to the end of the weight gradient, which reads both; not where these are
    computed together. The first part of the network has no input gradient: there weights take the gradients of one
    layer after the other.
    """
    parts, together = schedule.placement.parts[stage], computed_together(schedule, stage)
    live = most = 0
    for action in schedule.actions[stage]:
        kind, _, chunk, _ = action
        if kind is Kind.FORWARD:
            live += 1
        elif parts[chunk] > 0 and action._replace(kind=Kind.WEIGHT_GRADIENT) not in together:
            live += {Kind.INPUT_GRADIENT: 1, Kind.WEIGHT_GRADIENT: -2}.get(kind, 0)
        elif kind is Kind.WEIGHT_GRADIENT:
            live -= 1
        most = max(most, live)
    return most / len(parts)
