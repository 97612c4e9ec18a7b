"""The elements over which terms are computed, with the dims of rows last: those over which inner reductions go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.expression.term import Term, domain, inner_reductions


class RowDomain:
    """The domain of roots; ``row_dims`` are those of their inner reductions, or chosen where there are none."""

    def __init__(self, roots: Sequence[Term], chosen: Sequence[int] = ()) -> None:
        self.shape = domain(roots)
        self.inner = inner_reductions(roots)
        self._rank = len(self.shape)
        self.row_dims = tuple(dim + self._rank for dim in self.inner[0].number) if self.inner else tuple(chosen)
        self._order = [*(dim for dim in range(self._rank) if dim not in self.row_dims), *self.row_dims]

    @property
    def ordered_shape(self) -> tuple[int, ...]:
        """The shape with the dims of rows last."""
        return tuple(self.shape[dim] for dim in self._order)

    def aligned(self, array: Array) -> Array:
        """Return a view with the domain's dims, those of rows last."""
        whole = array.reshape((1,) * (self._rank - array.ndim) + tuple(array.shape))
        return whole.transpose(self._order)

    def is_row(self, term: Term) -> bool:
        """Return whether a term has one element a row."""
        lacking = self._rank - len(term.shape)
        return bool(self.row_dims) and all(dim < lacking or term.shape[dim - lacking] == 1 for dim in self.row_dims)

    def row_terms(self, terms: Iterable[Term]) -> frozenset[Term]:
        """Return those that have one element a row."""
        return frozenset(term for term in terms if self.is_row(term))
