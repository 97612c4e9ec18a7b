"""ZB-V with each forward pass late and each weight gradient early, so that a stage holds less."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, cycle
from typing import Final

from mpiparallel.pipeline.action import Action, Kind
from mpiparallel.pipeline.messages import Orders

_DOWN, _UP = (Kind.FORWARD, 0), (Kind.FORWARD, 1)
_BACK_DOWN, _BACK_UP = (Kind.INPUT_GRADIENT, 1), (Kind.INPUT_GRADIENT, 0)
_FIRST_STAGE: Final = (_DOWN, _BACK_UP, _UP, _BACK_DOWN)
_MIDDLE_STAGES: Final = (_DOWN, _BACK_UP, _BACK_DOWN, _UP)
_LAST_STAGE: Final = (_BACK_UP, _BACK_DOWN, _DOWN, _UP)
"""What a stage repeats, once a micro-batch; each input gradient is followed by its weight gradient."""


def zero_bubble_v_lean(stages: int, micro_batches: int) -> Orders:
    """Return an order of ZB-V's passes in which no stage holds more than 1F1B's first, gradients included.

    Gradients that wait for a weight gradient count as much as the activations. There are three differences from ZB-V.
    All stages but the last begin with one forward pass less. Each lets go of a micro-batch before it takes the next one
    in. Stage r has r + 1 weight gradients left at the end. The bubble is that of ZB-V and half a forward pass. The last
    stage computes both gradients of its second chunk layer by layer. It needs ``2 * stages - 1`` micro-batches.
    """
    return [_order(stages, micro_batches, stage) for stage in range(stages)]


def _order(stages: int, micro_batches: int, stage: int) -> list[Action]:
    is_last = stage == stages - 1
    ahead = 2 * (stages - stage) - 1 - (not is_last)
    begin = (*(_DOWN,) * ahead, *(_UP, _DOWN) * stage, *(_UP, _BACK_DOWN) * (stages - stage))
    repeated = _FIRST_STAGE if not stage else _LAST_STAGE if is_last else _MIDDLE_STAGES
    done = dict.fromkeys(repeated, 0)
    passes: list[Action] = []
    for kind, chunk in chain(begin, cycle(repeated)):
        if len(passes) == len(done) * micro_batches:
            break
        if done[kind, chunk] < micro_batches:
            passes.append(Action(kind, done[kind, chunk], chunk))
            done[kind, chunk] += 1
    return _with_weight_gradients(passes, owed=stage + 1)


def _with_weight_gradients(passes: Sequence[Action], owed: int) -> list[Action]:
    """Return the passes with each weight gradient behind its input gradient, the last ``owed`` at the end."""
    backward = [one for one in passes if one.kind is Kind.INPUT_GRADIENT]
    late = backward[len(backward) - owed :]
    order: list[Action] = []
    for one in passes:
        order.append(one)
        if one.kind is Kind.INPUT_GRADIENT and one not in late:
            order.append(one._replace(kind=Kind.WEIGHT_GRADIENT))
    return [*order, *(one._replace(kind=Kind.WEIGHT_GRADIENT) for one in late)]
