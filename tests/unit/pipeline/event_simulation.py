"""Schedules as graphs of events: who comes before whom, and the longest way through. It uses nothing of the checker."""

from __future__ import annotations

from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from typing import Any

from mpiparallel.pipeline import Costs, Kind, Schedule

SENDS = {Kind.SEND_ACTIVATIONS: 1, Kind.SEND_GRADIENTS: -1}
RECEIVES = {Kind.RECEIVE_ACTIVATIONS: 0, Kind.RECEIVE_GRADIENTS: 0}
CONSUMERS = {Kind.RECEIVE_ACTIVATIONS: Kind.FORWARD, Kind.RECEIVE_GRADIENTS: Kind.INPUT_GRADIENT}
IS_GRADIENT = {Kind.SEND_GRADIENTS, Kind.RECEIVE_GRADIENTS}


def message_of(schedule: Schedule, stage: int, action: Any) -> tuple[bool, int, int]:
    """Return what both ends of a message have in common: gradient or not, the part that takes it, the micro-batch."""
    part = schedule.placement.parts[stage][action.chunk] + SENDS.get(action.kind, 0)
    return action.kind in IS_GRADIENT, part, action.micro_batch


def simulated(schedule: Schedule, costs: Costs) -> dict[tuple[int, int], float] | None:
    """Return when each (stage, place in its list) ends, by the longest path; None for a circle of waits."""
    after: dict[Any, list[tuple[Any, float]]] = defaultdict(list)
    for stage, actions in enumerate(schedule.actions):
        share = len(schedule.placement.parts[stage])
        places = {action: place for place, action in enumerate(actions)}
        duration = {
            Kind.FORWARD: costs.forward[stage] / share,
            Kind.INPUT_GRADIENT: costs.input_gradient[stage] / share,
            Kind.WEIGHT_GRADIENT: costs.weight_gradient[stage] / share,
        }
        for place, action in enumerate(actions):
            event = (stage, place)
            after[event].append(((stage, place - 1) if place else "begin", duration.get(action.kind, 0.0)))
            if action.kind in SENDS:
                after[message_of(schedule, stage, action)].append((event, costs.message[stage]))
            if action.kind in RECEIVES:
                # The message leaves when its receive is posted, so that is as far from its arrival as the send is.
                message = message_of(schedule, stage, action)
                after[message].append((event, costs.message[action.peer]))
                consumer = places[action._replace(kind=CONSUMERS[action.kind], peer=None)]
                used = actions[consumer].kind
                after[stage, consumer].append((message, duration[used]))
    try:
        order = list(
            TopologicalSorter({event: [one for one, _ in needs] for event, needs in after.items()}).static_order()
        )
    except CycleError:
        return None
    ends: dict[Any, float] = {"begin": 0.0}
    for event in order:
        if event != "begin":
            ends[event] = max(ends[one] + time for one, time in after[event])
    return {
        (stage, place): ends[stage, place]
        for stage, actions in enumerate(schedule.actions)
        for place in range(len(actions))
    }


def most_at_once(schedule: Schedule, costs: Costs, stage: int, ends: dict[tuple[int, int], float]) -> float:
    """Return the most micro-batches whose activations are held at one moment, by when they begin and end."""
    changes = []
    for place, action in enumerate(schedule.actions[stage]):
        if action.kind is Kind.FORWARD:
            begin = ends[stage, place] - costs.forward[stage] / len(schedule.placement.parts[stage])
            changes.append((begin, 1))
        if action.kind is Kind.WEIGHT_GRADIENT:
            changes.append((ends[stage, place], -1))
    live = most = 0
    for _, change in sorted(changes):
        live += change
        most = max(most, live)
    return most / len(schedule.placement.parts[stage])


def ends_with_rendezvous(schedule: Schedule) -> bool:
    """Return whether a step ends where a send and its receive are one event, and channels keep their order."""
    sent, received = defaultdict(list), defaultdict(list)
    for stage, actions in enumerate(schedule.actions):
        for action in actions:
            if action.kind in SENDS:
                sent[stage, action.peer].append(message_of(schedule, stage, action))
            elif action.kind in RECEIVES:
                received[action.peer, stage].append(message_of(schedule, stage, action))
    if sent != received:
        return False
    before: dict[Any, list[Any]] = defaultdict(list)
    for stage, actions in enumerate(schedule.actions):
        last: Any = None
        for place, action in enumerate(actions):
            event = (stage, place) if action.peer is None else message_of(schedule, stage, action)
            if last is not None:
                before[event].append(last)
            last = event
    try:
        TopologicalSorter(before).prepare()
    except CycleError:
        return False
    return True
