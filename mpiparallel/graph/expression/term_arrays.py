"""Terms with the arrays that they are computed from and into, over a domain with as few dims as possible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from mpiparallel.backend.protocol import Array
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.expression.term import Term


@dataclass
class TermArrays:
    """What a kernel computes. All arrays have the rank of ``shape``, with one element in dims that they lack.

    ``leaves`` are what is known; ``roots`` go to ``outputs``; ``totals`` are sums, added up in float64 arrays. The last
    ``row_rank`` dims are those over which inner reductions go.
    """

    shape: tuple[int, ...]
    row_rank: int
    leaves: dict[Term, Array]
    roots: tuple[Term, ...]
    outputs: tuple[Array, ...]
    totals: dict[Term, Array]
    row_terms: frozenset[Term]

    def targets(self) -> Iterator[tuple[Term, Array]]:
        """Return the roots that are no totals, with the arrays that they go to."""
        return ((root, array) for root, array in zip(self.roots, self.outputs, strict=True) if root not in self.totals)

    def is_row(self, term: Term) -> bool:
        """Return whether a term has one element a row."""
        return term in self.row_terms


def merged(
    xp: Any, shape: tuple[int, ...], row_rank: int, arrays: Sequence[Array]
) -> tuple[tuple[int, ...], int, list[Array]]:
    """Return shape, number of row dims and arrays with neighbouring dims as one where every array allows it.

    Takes arrays of the library ``xp``, of the shape's rank; the shape has elements.
    """
    strides = [_strides(array, shape) for array in arrays]
    groups: list[list[int]] = []
    for dim, extent in enumerate(shape):
        if extent == 1:
            continue
        previous = groups[-1][-1] if groups else dim
        alike = _in_row(previous, shape, row_rank) == _in_row(dim, shape, row_rank)
        if groups and alike and _mergeable(previous, dim, shape, strides):
            groups[-1].append(dim)
        else:
            groups.append([dim])
    fewer = tuple(prod(shape[dim] for dim in group) for group in groups)
    rows = sum(_in_row(group[0], shape, row_rank) for group in groups)
    found = [_merge(xp, array, own, groups, fewer) for array, own in zip(arrays, strides, strict=True)]
    return fewer, rows, found


def _strides(array: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(0 if extent == 1 else stride for extent, stride in zip(array.shape, array.strides, strict=True))


def _in_row(dim: int, shape: tuple[int, ...], row_rank: int) -> bool:
    return dim >= len(shape) - row_rank


def _mergeable(dim: int, following: int, shape: tuple[int, ...], strides: Sequence[tuple[int, ...]]) -> bool:
    return all(own[dim] == own[following] * shape[following] for own in strides)


def _merge(xp: Any, array: Any, strides: tuple[int, ...], groups: list[list[int]], shape: tuple[int, ...]) -> Any:
    steps = tuple(strides[group[-1]] for group in groups)
    extents = tuple(extent if _spans(array, group) else 1 for group, extent in zip(groups, shape, strict=True))
    return xp.lib.stride_tricks.as_strided(array, extents, steps)


def _spans(array: Any, group: list[int]) -> bool:
    return any(array.shape[dim] != 1 for dim in group)
