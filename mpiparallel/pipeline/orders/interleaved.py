"""Interleaved 1F1B: each stage holds several runs of layers, and a micro-batch passes all stages once for each."""

from __future__ import annotations

from mpiparallel.pipeline.messages import Orders
from mpiparallel.pipeline.orders.computations import Computations


def interleaved(stages: int, micro_batches: int, chunks: int) -> Orders:
    """Return the order of Narayanan et al. 2021 (arXiv 2104.04473): 1F1B over groups of ``stages`` micro-batches.

    A group passes a chunk, then the next one. The micro-batches must be a multiple of the stages.
    """
    every = [Computations.of(micro_batches, chunk) for chunk in range(chunks)]
    passes = [
        (chunk, group + one)
        for group in range(0, micro_batches, stages)
        for chunk in range(chunks)
        for one in range(stages)
    ]
    orders = []
    for stage in range(stages):
        ahead = min(len(passes), 2 * (stages - stage - 1) + (chunks - 1) * stages)
        order = [every[chunk].forward[one] for chunk, one in passes[:ahead]]
        for place, (chunk, one) in enumerate(passes):
            order += [every[later].forward[other] for later, other in passes[ahead + place : ahead + place + 1]]
            order += every[chunks - 1 - chunk].backward(one)
        orders.append(order)
    return orders
