"""Memory into which communication copies data that is not contiguous, or that must be kept meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from mpiparallel.graph.graph import Node
from mpiparallel.graph.operator import Operator
from mpiparallel.layout.box import Box
from mpiparallel.parallel.border import EndSend, Receive, Send
from mpiparallel.parallel.collective_operators import AllReduce
from mpiparallel.parallel.overlap import Start
from mpiparallel.parallel.redistribution import Redistribution, group_layouts
from mpiparallel.parallel.redistribution_operators import (
    ExchangeBoxes,
    FusedAllReduce,
    FusedRedistribution,
    ReduceScatterBlocks,
)
from mpiparallel.reshard.planning.plan import Transfer, plan_reshard


def communication_buffers(nodes: Sequence[Node], rank: int) -> int:
    """Return the bytes that the collectives and messages of ``rank`` take beside what they read and write."""
    return sum(_staged(node, rank) for node in nodes) + _sent(nodes, rank) + _landed(nodes, rank)


def summing_buffers(nodes: Sequence[Node]) -> int:
    """Return the bytes that the MPI library takes while it sums up: what a peer sends, and a sum that is not cut yet.

    It takes them for one collective at a time.
    """
    most = 0
    for node in nodes:
        operator = _collective(node)
        size = sum(value.spec.byte_count for value in node.inputs)
        if isinstance(operator, AllReduce):
            most = max(most, size)
        elif isinstance(operator, ReduceScatterBlocks):
            most = max(most, 2 * size)
    return most


def _collective(node: Node) -> Operator:
    return node.operator.operator if isinstance(node.operator, Start) else node.operator


def _staged(node: Node, rank: int) -> int:
    operator = _collective(node)
    if isinstance(operator, FusedAllReduce):
        return sum(value.spec.byte_count for value in node.inputs)
    if isinstance(operator, ExchangeBoxes):
        sizes = (value.spec.dtype.itemsize for value in node.inputs)
        return sum(_packed(step, rank, size) for step, size in zip(operator.steps, sizes, strict=True))
    if not isinstance(operator, FusedRedistribution):
        return 0
    wholes = node.outputs if operator.steps[0].kind == "gather" else node.inputs
    if len(wholes) == 1 and prod(wholes[0].spec.shape[: operator.steps[0].blocked_dim]) == 1:
        return 0
    return sum(value.spec.byte_count for side in (node.inputs, node.outputs) for value in side)


def _packed(step: Redistribution, rank: int, itemsize: int) -> int:
    """Return the bytes of the boxes that are packed or unpacked: those that are not in one piece where they are.

    Boxes of a few KB, which many ranks pack in any case, are told as others.
    """
    source, target = group_layouts(step, rank)
    place = step.ranks(rank).index(rank)
    plan = plan_reshard({"": (source, target)}, place)
    leaving, coming = (
        sum(one.box.size for one in transfers if not _is_one_piece(one.box, whole.box(place)))
        for transfers, whole in ((plan.sends, source), (plan.receives, target))
    )
    return (leaving + coming) * itemsize


def _sent(nodes: Sequence[Node], rank: int) -> int:
    """Return the bytes of copies of what is sent that is not one piece of an array; they are used again by size."""
    free: Counter[int] = Counter()
    total = 0
    for node in nodes:
        if isinstance(node.operator, Send | EndSend):
            border, itemsize = node.operator.border, node.inputs[0].spec.dtype.itemsize
            whole = border.source.box(rank)
            boxes = [one for one in border.plan(rank).sends if not _is_one_piece(one.box, whole)]
            sizes = Counter(_byte_count(one, itemsize) for one in boxes)
            if isinstance(node.operator, Send):
                total += sum(size * count for size, count in (sizes - free).items())
                free -= sizes
            else:
                free += sizes
    return total


def _landed(nodes: Sequence[Node], rank: int) -> int:
    """Return the bytes into which messages between stages are received that do not fill one piece of an array."""
    total = 0
    for node in nodes:
        if isinstance(node.operator, Receive):
            border = node.operator.border
            whole, itemsize = border.target.box(rank), node.outputs[0].spec.dtype.itemsize
            boxes = [one for one in border.plan(rank).receives if not _is_one_piece(one.box, whole)]
            total += sum(_byte_count(one, itemsize) for one in boxes)
    return total


def _byte_count(transfer: Transfer, itemsize: int) -> int:
    return transfer.box.size * itemsize


def _is_one_piece(box: Box, whole: Box) -> bool:
    """Return whether a box lies in one piece in an array that holds ``whole``.

    >>> _is_one_piece(Box((1, 0), (3, 4)), Box((0, 0), (4, 4))), _is_one_piece(Box((0, 1), (4, 2)), Box((0, 0), (4, 4)))
    (True, False)
    """
    extents = [*zip(box.shape, whole.shape, strict=True)]
    cut = [dim for dim, (part, extent) in enumerate(extents) if part != extent]
    return not cut or prod(part for part, _ in extents[: cut[-1]]) == 1
