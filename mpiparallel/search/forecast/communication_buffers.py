"""The memory into which communication copies what it sends or gets, where that is not in one piece, or must be kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Final

from mpiparallel.graph.graph import Node
from mpiparallel.layout.box import Box
from mpiparallel.parallel.border import Receive, Send
from mpiparallel.parallel.overlap import Start
from mpiparallel.parallel.redistribution import Redistribution, group_layouts
from mpiparallel.parallel.redistribution_operators import ExchangeBoxes, FusedAllReduce, FusedRedistribution
from mpiparallel.reshard.planning.plan import Transfer, plan_reshard

_ON_THEIR_WAY: Final = 2
"""Copies of a size that are sent at a time: one is being received while the next is made."""


def communication_buffers(nodes: Sequence[Node], rank: int) -> int:
    """Return the bytes that the collectives and messages of ``rank`` take beside what they read and write."""
    return sum(_staged(node, rank) for node in nodes) + _sent(nodes, rank) + _landed(nodes, rank)


def _staged(node: Node, rank: int) -> int:
    operator = node.operator.operator if isinstance(node.operator, Start) else node.operator
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
    """Return the bytes of the copies that messages between stages are sent from, which are used again by size."""
    sizes: Counter[int] = Counter()
    for node in nodes:
        if isinstance(node.operator, Send):
            for one in node.operator.border.plan(rank).sends:
                sizes[_byte_count(one, node.inputs[0].spec.dtype.itemsize)] += 1
    return sum(size * min(count, _ON_THEIR_WAY) for size, count in sizes.items())


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
