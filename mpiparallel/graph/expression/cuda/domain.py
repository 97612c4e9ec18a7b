"""Which roots one CUDA kernel computes together, along which dims its rows go, and what is computed before it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from mpiparallel.graph.expression.row_domain import RowDomain
from mpiparallel.graph.expression.term import REDUCTIONS, Term, uncast, walk

_SMALL: Final = 16
"""How many times as many elements a kernel has as a term that is computed before it."""

_WORTH_A_LAUNCH: Final = 3
"""Functions that such a term is made of at least."""


def row_dims_of(roots: Sequence[Term]) -> tuple[int, ...]:
    """Return the dims of rows where no inner reduction says them.

    They are the last ones that the first sum goes over, or the last ones that it keeps; none where nothing is summed.
    """
    rows = RowDomain(roots)
    total = next((one for one in map(uncast, roots) if one.function == "sum" and one not in rows.inner), None)
    if rows.inner or total is None:
        return rows.row_dims
    reduced = _reduced(total, rows.shape)
    found: list[int] = []
    kinds: set[bool] = set()
    for dim in reversed(range(len(rows.shape))):
        if rows.shape[dim] > 1:
            kinds.add(dim in reduced)
        if len(kinds) > 1:
            break
        found.insert(0, dim)
    return tuple(found)


def apart(roots: Sequence[Term]) -> set[int]:
    """Return the places of the roots that another kernel must compute.

    Those have other elements than the rest, or are sums over other dims, or go over a part of a row.
    """
    rows = RowDomain(roots, row_dims_of(roots))
    found: set[int] = set()
    seen: set[Term] = set()
    across: set[int] | None = None
    for place, root in enumerate(roots):
        term = uncast(root)
        if term.function != "sum" or term in rows.inner:
            if root in seen or not (root.shape == rows.shape or (rows.inner and _is_of_rows(root, rows))):
                found.add(place)
            seen.add(root)
            continue
        reduced = _reduced(term, rows.shape)
        of_outer, of_row = reduced - set(rows.row_dims), reduced & set(rows.row_dims)
        is_row = bool(rows.inner) and _is_of_rows(term.operands[0], rows)
        is_whole = term.operands[0].shape == rows.shape
        fits = is_row or (is_whole and of_row in (set(), {dim for dim in rows.row_dims if rows.shape[dim] > 1}))
        if not fits or term in seen or (of_outer and across is not None and of_outer != across):
            found.add(place)
            continue
        seen.add(term)
        across = of_outer or across
    return found if len(found) < len(roots) or len(roots) == 1 else set(range(1, len(roots)))


def small_terms(roots: Sequence[Term]) -> list[Term]:
    """Return the terms that are worth a kernel of their own: with few elements, which would be computed many times."""
    rows = RowDomain(roots, row_dims_of(roots))
    limit = prod(rows.shape) // _SMALL
    terms = walk(roots)
    small = {
        term
        for term in terms
        if 1 < prod(term.shape) <= limit
        and not (rows.inner and rows.is_row(term))
        and not any(one.function in REDUCTIONS for one in walk((term,)))
        and sum(not one.is_leaf and one.function != "cast" for one in walk((term,))) >= _WORTH_A_LAUNCH
    }
    used = {one for term in terms if term not in small for one in term.operands}
    return [term for term in terms if term in small and term in used]


def _reduced(total: Term, shape: tuple[int, ...]) -> set[int]:
    return {dim + len(shape) for dim in total.number if shape[dim] > 1}


def _is_of_rows(term: Term, rows: RowDomain) -> bool:
    """Return whether a term has one element for each row."""
    return rows.is_row(term) and prod(term.shape) == prod(
        extent for dim, extent in enumerate(rows.shape) if dim not in rows.row_dims
    )
