"""Terms with their dims in the order in which arrays lie in memory, such as images whose channels are last there."""

from __future__ import annotations

from collections.abc import Sequence

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.expression.term import Term, domain, walk


def in_memory_order(
    roots: Sequence[Term], operands: Sequence[Array], outputs: Sequence[Array]
) -> tuple[tuple[Term, ...], Sequence[Array], Sequence[Array]]:
    """Return equal roots, operands and outputs, with dims in the order of the memory of the largest arrays.

    As they are where that is the order of the dims already.
    """
    shape = domain(roots)
    order = _order(shape, [*operands, *outputs])
    if order == [*range(len(shape))]:
        return tuple(roots), operands, outputs
    found: dict[Term, Term] = {}
    views: list[Array] = []
    for term in walk(roots):
        number = term.number
        if term.function == "input":
            number = len(views)
            views.append(_turned(operands[term.number], term.shape, order))
        elif term.function in ("sum", "max"):
            rank = len(shape)
            number = tuple(sorted(order.index(dim + rank) - rank for dim in term.number))
        own = _turned_shape(term.shape, order) if term.shape else ()
        found[term] = Term(term.function, tuple(found[one] for one in term.operands), own, term.dtype, number)
    targets = [_turned(output, root.shape, order) for root, output in zip(roots, outputs, strict=True)]
    return tuple(found[root] for root in roots), views, targets


def _order(shape: tuple[int, ...], arrays: Sequence[Array]) -> list[int]:
    """Return the dims by descending strides, as most of the arrays of the whole shape have them; those of 1 first."""
    dims = [*range(len(shape))]
    wide = [dim for dim in dims if shape[dim] > 1]
    orders = [
        sorted(wide, key=[-stride for stride in array.strides].__getitem__)
        for array in arrays
        if tuple(array.shape) == shape
    ]
    order = max(orders, key=orders.count) if orders else wide
    return dims if order == wide else [*(dim for dim in dims if shape[dim] == 1), *order]


def _turned_shape(shape: tuple[int, ...], order: Sequence[int]) -> tuple[int, ...]:
    whole = (1,) * (len(order) - len(shape)) + shape
    return tuple(whole[dim] for dim in order)


def _turned(array: Array, shape: tuple[int, ...], order: Sequence[int]) -> Array:
    return array.reshape((1,) * (len(order) - len(shape)) + shape).transpose(order)
