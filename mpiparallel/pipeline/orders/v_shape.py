"""Schedules in the shape of a V: from the first stage to the last and back, so that each stage holds two chunks."""

from __future__ import annotations

from typing import Final

from mpiparallel.pipeline.action import Action
from mpiparallel.pipeline.messages import Orders
from mpiparallel.pipeline.orders.computations import Computations

_PERIOD: Final = 6
"""Computations of one micro-batch on one stage: three for each of two chunks."""


def zero_bubble_v(stages: int, micro_batches: int) -> Orders:
    """Return ZB-V's order (Qi et al. 2023, arXiv 2401.10241): no stage waits while all are full.

    It needs ``2 * stages - 1`` micro-batches. Every stage holds at most as many activations as 1F1B's first stage.
    """
    return [_zero_bubble_v(stages, micro_batches, stage) for stage in range(stages)]


def _zero_bubble_v(stages: int, micro_batches: int, stage: int) -> list[Action]:
    down, up = Computations.of(micro_batches), Computations.of(micro_batches, 1)
    first = 2 * (stages - stage) - 1
    order = list(down.forward[:first])
    for one in range(stage):
        order += (up.forward[one], down.forward[first + one])
    for one in range(stages - stage):
        order += (up.forward[stage + one], *up.backward(one))
    entered, turned, ended = first + stage, stages, stages - stage
    returned = 0
    while turned < micro_batches:
        order += down.forward[entered : entered + 1]
        order += (*down.backward(returned), up.forward[turned], *up.backward(ended))
        entered, turned, ended, returned = entered + 1, turned + 1, ended + 1, returned + 1
    finished = returned
    for one in range(stage):
        order += (down.input_gradient[returned + one], up.input_gradient[ended + one])
    for one in range(stages - stage):
        order += (down.input_gradient[returned + stage + one], down.weight_gradient[finished + one])
    order += up.weight_gradient[ended:]
    order += down.weight_gradient[finished + stages - stage :]
    return order


def v_half(stages: int, micro_batches: int) -> Orders:
    """Return V-half's order (Qi et al. 2024, arXiv 2405.15362): about half the activations of 1F1B.

    The pattern of one micro-batch is repeated every six units of time, so the four passes of a stage never overlap. A
    weight gradient takes the first free unit after its input gradient. Only the order is kept, not the times.
    """
    shift = 3 if stages % 2 == 0 else 0
    chunks = (Computations.of(micro_batches), Computations.of(micro_batches, 1))
    orders = []
    for stage in range(stages):
        starts = [
            (chunks[0].forward, 2 * stage),
            (chunks[1].forward, 3 * stages - stage - 2),
            (chunks[1].input_gradient, 3 * stages + shift + 2 * stage - 1),
            (chunks[0].input_gradient, 6 * stages + shift - stage - 2),
        ]
        taken = {start % _PERIOD for _, start in starts}
        for chunk, (_, start) in zip((chunks[1], chunks[0]), starts[2:], strict=True):
            free = next(unit for unit in range(start + 1, start + _PERIOD) if unit % _PERIOD not in taken)
            taken.add(free % _PERIOD)
            starts.append((chunk.weight_gradient, free))
        timed = sorted((start + _PERIOD * one, action) for passes, start in starts for one, action in enumerate(passes))
        orders.append([action for _, action in timed])
    return orders
