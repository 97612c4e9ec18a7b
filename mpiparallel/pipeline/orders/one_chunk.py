"""Schedules of stages that hold one run of layers each: GPipe, 1F1B, ZB-H1."""

from __future__ import annotations

from mpiparallel.pipeline.action import Action
from mpiparallel.pipeline.messages import Orders
from mpiparallel.pipeline.orders.computations import Computations


def gpipe(stages: int, micro_batches: int) -> Orders:
    """Return GPipe's order: all forward passes, then all backward passes (Huang et al. 2019)."""
    every = Computations.of(micro_batches)
    backward = [action for one in range(micro_batches) for action in every.backward(one)]
    return [[*every.forward, *backward]] * stages


def one_forward_one_backward(stages: int, micro_batches: int) -> Orders:
    """Return 1F1B's order: as many forward passes as there are stages behind, then one backward pass after each.

    PipeDream-Flush, Narayanan et al. 2021. A stage holds the activations of at most as many micro-batches as there are
    stages from it on.
    """
    return [_alternating(stages - stage - 1, micro_batches) for stage in range(stages)]


def zero_bubble_h1(stages: int, micro_batches: int) -> Orders:
    """Return ZB-H1's order: that of 1F1B, with weight gradients put off to where the stage would wait.

    Qi et al. 2023 (arXiv 2401.10241). Stage r owes r weight gradients, which it does at the end; so every stage holds
    at most as many activations as 1F1B's first stage.
    """
    return [_alternating(stages - stage - 1, micro_batches, owed=stage) for stage in range(stages)]


def _alternating(ahead: int, micro_batches: int, owed: int = 0) -> list[Action]:
    """Return a stage's order with some forward passes ``ahead``, and weight gradients ``owed`` until the end."""
    every = Computations.of(micro_batches)
    order = list(every.forward[:ahead])
    for one in range(micro_batches):
        order += every.forward[ahead + one : ahead + one + 1]
        order.append(every.input_gradient[one])
        if one >= owed:
            order.append(every.weight_gradient[one - owed])
    return [*order, *every.weight_gradient[max(micro_batches - owed, 0) :]]
