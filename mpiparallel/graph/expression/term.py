"""Terms: what one element of an output is, said by elements of the inputs, once for every way to compute it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np

from mpiparallel.dataclass import dataclass
from mpiparallel.dtype import common_dtype, is_narrow
from mpiparallel.graph.expression.universal_functions import universal_function

REDUCTIONS = frozenset(("sum", "max"))
"""Functions of the elements along dims, which keep one element there."""

_SINGLE = np.dtype(np.float32)


@dataclass(frozen=True, eq=False)
class Term:
    """A function of other terms, of one element each; the name of the function is that of the array library.

    ``input`` is an operand and ``constant`` a number: ``number`` says which. That of a reduction are its dims, counted
    from the right. Terms broadcast as arrays do.
    """

    function: str
    operands: tuple[Term, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    number: Any = None

    def __add__(self, other: Term | float) -> Term:
        return call("add", self, other)

    def __radd__(self, other: float) -> Term:
        return call("add", other, self)

    def __sub__(self, other: Term | float) -> Term:
        return call("subtract", self, other)

    def __rsub__(self, other: float) -> Term:
        return call("subtract", other, self)

    def __mul__(self, other: Term | float) -> Term:
        return call("multiply", self, other)

    def __rmul__(self, other: float) -> Term:
        return call("multiply", other, self)

    def __truediv__(self, other: Term | float) -> Term:
        return call("true_divide", self, other)

    def __rtruediv__(self, other: float) -> Term:
        return call("true_divide", other, self)

    def __neg__(self) -> Term:
        return call("negative", self)

    def astype(self, dtype: Any) -> Term:
        """Return the term with another dtype."""
        wanted = np.dtype(dtype)
        return self if wanted == self.dtype else Term("cast", (self,), self.shape, wanted)

    def reshape(self, shape: tuple[int, ...]) -> Term:
        """Return an operand with dims of one element added or taken away."""
        if self.function == "cast":
            return Term("cast", (self.operands[0].reshape(shape),), shape, self.dtype)
        return Term(self.function, self.operands, shape, self.dtype, self.number)

    @property
    def is_leaf(self) -> bool:
        """Whether it is known before anything is computed."""
        return self.function in ("input", "constant")


def operand(position: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Term:
    """Return the term of an operand of a kernel."""
    return Term("input", (), shape, dtype, position)


def call(function: str, *operands: Term | float) -> Term:
    """Return a function of terms and numbers; numbers take the dtype of the terms."""
    given = [one for one in operands if isinstance(one, Term)]
    values = given[1:] if function == "where" and isinstance(operands[0], Term) else given
    dtypes = {one.dtype for one in values}
    dtype = values[0].dtype if len(dtypes) == 1 else common_dtype(*dtypes)
    terms = tuple(one if isinstance(one, Term) else Term("constant", (), (), dtype, one) for one in operands)
    shape = _broadcast(one.shape for one in terms)
    row = universal_function(function)
    is_truth = row is not None and row.gives == "booleans"
    return Term(function, terms, shape, np.dtype(np.bool_) if is_truth else dtype)


def reduce(function: str, x: Term, dims: Iterable[int]) -> Term:
    """Return the ``sum`` or the ``max`` over dims, which keep one element; sums are made in float64."""
    rank = len(x.shape)
    chosen = tuple(sorted((dim % rank) - rank for dim in dims))
    shape = tuple(1 if dim - rank in chosen else extent for dim, extent in enumerate(x.shape))
    return Term(function, (x,), shape, x.dtype, chosen)


def widened(term: Term) -> Term:
    """Return the term in the dtype in which it is computed with: of 16 bits, float32."""
    return term.astype(_SINGLE) if is_narrow(term.dtype) else term


def walk(roots: Iterable[Term], known: Container[Term] = ()) -> list[Term]:
    """Return all terms that the roots are made of, each after its operands, but not what ``known`` ones are made of."""
    found: dict[Term, None] = {}
    waiting = [*roots][::-1]
    while waiting:
        term = waiting[-1]
        before = () if term in found or term in known else [one for one in term.operands if one not in found]
        if before:
            waiting += before[::-1]
        else:
            found[waiting.pop()] = None
    return list(found)


def domain(roots: Sequence[Term]) -> tuple[int, ...]:
    """Return the shape over which the roots are computed."""
    return _broadcast(term.shape for term in walk(roots))


def _broadcast(shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape of terms together; most have one shape, or none."""
    distinct = set(shapes) - {()}
    return next(iter(distinct), ()) if len(distinct) < 2 else tuple(np.broadcast_shapes(*distinct))


def inner_reductions(roots: Sequence[Term]) -> list[Term]:
    """Return the reductions from which something else is computed, over the same elements; not those that are roots."""
    terms = walk(roots)
    tails = {cast for root in roots for cast in _casts(root)}
    used: set[Term] = set()
    for term in reversed(terms):
        if term not in tails or term in used:
            used.update(term.operands)
    return [term for term in terms if term.function in REDUCTIONS and (term in used or term.function == "max")]


def uncast(term: Term) -> Term:
    """Return what a term is before it was given other dtypes."""
    return uncast(term.operands[0]) if term.function == "cast" else term


def _casts(term: Term) -> list[Term]:
    return [term, *_casts(term.operands[0])] if term.function == "cast" else []
