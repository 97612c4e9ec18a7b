"""Terms computed by the array library: one universal function after the other, block by block in cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.expression.block_places import Place, block_places, block_size
from mpiparallel.graph.expression.term import REDUCTIONS, Term, walk
from mpiparallel.graph.expression.term_arrays import TermArrays
from mpiparallel.graph.expression.universal_functions import array_function

BlockStep = tuple[Callable[..., object], tuple[int, ...], int]
"""A function, where its operands are in a block, and where its result goes."""

_WIDE = np.dtype(np.float64)


def block_kernel(runtime: Runtime, bound: TermArrays) -> Kernel:
    """Return what computes the roots from the leaves."""
    program = _BlockProgram(runtime, bound)
    places = block_places(bound.shape, len(bound.shape) - bound.row_rank, block_size(runtime))
    blocks = [program.block(place) for place in places]
    steps = program.steps

    def run() -> None:
        for block in blocks:
            for function, operands, target in steps:
                function(*[block[index] for index in operands], out=block[target])

    return run


@dataclass
class _Register:
    """Scratch memory of one dtype, for a whole block or for one number a row."""

    slot: int
    dtype: np.dtype[Any]
    is_row: bool


class _BlockProgram:
    """Where each term of a block lives, and the steps that compute it."""

    def __init__(self, runtime: Runtime, bound: TermArrays) -> None:
        self._runtime = runtime
        self._bound = bound
        self._xp = runtime.array_module
        self._arrays: list[Array | _Register] = []
        self._place: dict[Term, int] = {}
        self._free: list[int] = []
        self._read_in: dict[int, list[Term]] = {}
        self.steps: list[BlockStep] = []
        self._compile()

    def block(self, place: Place) -> list[Array]:
        """Return the arrays of one block: parts of operands, of targets, and scratch."""
        shape = tuple(len(range(*cut.indices(extent))) for cut, extent in zip(place, self._bound.shape, strict=False))
        whole = shape + self._bound.shape[len(shape) :]
        row = whole[: len(whole) - self._bound.row_rank] + (1,) * self._bound.row_rank
        return [
            self._runtime.scratch(row if one.is_row else whole, one.dtype, one.slot)
            if isinstance(one, _Register)
            else _part(one, place)
            for one in self._arrays
        ]

    def _compile(self) -> None:
        bound = self._bound
        for term, array in bound.leaves.items():
            # Beside a number without dims the array library takes its quickest way; beside one of one dim it does not.
            self._place[term] = self._add(array.reshape(()) if array.size == 1 else array)
        terms = [term for term in walk(bound.roots, bound.leaves) if term not in bound.leaves]
        last = {one: step for step, term in enumerate(terms) for one in term.operands}
        last.update((root, len(terms)) for root in bound.roots)
        targets = {root: self._target(root, target, terms, last) for root, target in bound.targets()}
        for step, term in enumerate(terms):
            if term in bound.totals:
                self._add_total(term)
                continue
            dying = [one for one in dict.fromkeys(term.operands) if last[one] == step]
            ahead = None if term in targets else self._output_ahead(term, step, terms, last, targets)
            if ahead is not None:
                self._release(dying)
                self._place[term] = ahead
            elif targets.get(term) is None and not self._is_safe_in_place(term):
                self._place[term] = self._scratch(term)
                self._release(dying)
            else:
                self._release(dying)
                target = targets.get(term)
                self._place[term] = self._scratch(term) if target is None else target
            self._emit(term)
        for root, target in bound.targets():
            if self._place[root] != targets[root]:
                self.steps.append((partial(_copy, self._xp), (self._place[root],), self._add(target)))

    def _add(self, array: Array | _Register) -> int:
        self._arrays.append(array)
        return len(self._arrays) - 1

    def _target(self, root: Term, target: Array, terms: Sequence[Term], last: dict[Term, int]) -> int | None:
        """Return the target's place where the root may be computed there: nothing in its memory is read later."""
        if root in self._bound.leaves:
            return None
        step = terms.index(root) - (not self._is_safe_in_place(root))
        read = [leaf for leaf, array in self._bound.leaves.items() if leaf in last and _overlaps(array, target)]
        if any(last[leaf] > step for leaf in read):
            return None
        place = self._add(target)
        self._read_in[place] = read
        return place

    def _output_ahead(
        self, term: Term, step: int, terms: Sequence[Term], last: dict[Term, int], targets: dict[Term, int | None]
    ) -> int | None:
        """Return the place of an output that is computed later, where a term can wait: scratch would fill the cache."""
        if not self._is_safe_in_place(term) or self._bound.is_row(term):
            return None
        for root, place in targets.items():
            if place is None or root.dtype != term.dtype or self._bound.is_row(root) or term not in last:
                continue
            waits = step < terms.index(root) and last[term] <= terms.index(root) and self._is_safe_in_place(root)
            taken = any(self._place.get(one) == place and last[one] > step for one in terms[:step] if one in last)
            read = any(last[leaf] > step for leaf in self._read_in[place])
            if waits and not taken and not read:
                return place
        return None

    @staticmethod
    def _is_safe_in_place(term: Term) -> bool:
        return term.function != "where" and term.function not in REDUCTIONS

    def _scratch(self, term: Term) -> int:
        is_row = self._bound.is_row(term)
        for index in self._free:
            register = self._arrays[index]
            if isinstance(register, _Register) and (register.dtype, register.is_row) == (term.dtype, is_row):
                self._free.remove(index)
                return index
        count = sum(isinstance(one, _Register) for one in self._arrays)
        return self._add(_Register(count, term.dtype, is_row))

    def _release(self, dying: Sequence[Term]) -> None:
        for term in dying:
            index = self._place[term]
            if isinstance(self._arrays[index], _Register) and index not in self._free:
                self._free.append(index)

    def _emit(self, term: Term) -> None:
        operands = tuple(self._place[one] for one in term.operands)
        self.steps.append((self._function(term), operands, self._place[term]))

    def _function(self, term: Term) -> Callable[..., object]:
        xp = self._xp
        if term.function == "cast":
            return partial(_copy, xp)
        if term.function == "where":
            return partial(_choose, xp)
        if term.function == "square":
            return lambda x, out: xp.multiply(x, x, out=out)
        if term.function in REDUCTIONS:
            axes, reduce = tuple(range(-self._bound.row_rank, 0)), getattr(xp, term.function)
            return lambda x, out: reduce(x, axis=axes, keepdims=True, out=out)
        return array_function(self._runtime, term.function)

    def _add_total(self, term: Term) -> None:
        xp, array = self._xp, self._bound.totals[term]
        axes = tuple(dim for dim, extent in enumerate(array.shape) if extent != self._bound.shape[dim])

        ones = np.ones(min(self._bound.shape[-1], block_size(self._runtime)) if array.ndim else 1, term.dtype)
        by_product = xp is np and array.ndim - 1 in axes

        def add(x: Array, out: Array) -> None:
            if by_product and x.flags.c_contiguous:
                # A product with ones is several times as fast as a reduction over a short last dim.
                x = np.matmul(x.reshape(-1, x.shape[-1]), ones[: x.shape[-1]]).reshape((*x.shape[:-1], 1))
            xp.add(out, xp.add.reduce(x, axis=axes, keepdims=True), out=out)

        self._place[term] = self._add(array)
        self.steps.append((add, (self._place[term.operands[0]],), self._place[term]))


def _copy(xp: Any, x: Array, out: Array) -> None:
    xp.copyto(out, x, casting="unsafe")


def _choose(xp: Any, condition: Array, x: Array, y: Array, out: Array) -> None:
    xp.copyto(out, y)
    xp.copyto(out, x, where=condition)


def _part(array: Array, place: Place) -> Array:
    if array.ndim == 0:
        return array
    return array[tuple(cut if extent != 1 else slice(None) for cut, extent in zip(place, array.shape, strict=False))]


def _overlaps(one: Array, other: Array) -> bool:
    if not isinstance(one, np.ndarray):
        return bool(one.data.ptr == other.data.ptr)
    return bool(np.may_share_memory(one, other))
