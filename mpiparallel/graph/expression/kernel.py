"""Kernels of terms: small terms first, then one pass over all elements, compiled where it can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.expression.block_kernel import block_kernel
from mpiparallel.graph.expression.cuda.kernel import cuda_kernel, is_cuda_computable
from mpiparallel.graph.expression.loop_kernel import loop_kernel
from mpiparallel.graph.expression.row_domain import RowDomain
from mpiparallel.graph.expression.term import REDUCTIONS, Term, domain, inner_reductions, uncast, walk
from mpiparallel.graph.expression.term_arrays import TermArrays, merged
from mpiparallel.graph.expression.universal_functions import array_function

_WIDE = np.dtype(np.float64)


def expression_kernel(
    runtime: Runtime,
    roots: Sequence[Term],
    operands: Sequence[Array],
    outputs: Sequence[Array],
    compiles: bool = True,
) -> Kernel:
    """Return what computes each root from the operands into its output.

    An output may be the memory of an operand of its shape and dtype. Inner reductions must go over the same dims. With
    ``compiles`` one compiled loop does it where that is worth it; its results differ by rounding.
    """
    if prod(domain(roots)) == 0:
        return _fill_sums(roots, outputs)
    if is_cuda_computable(runtime, roots):
        return cuda_kernel(runtime, roots, operands, outputs)
    binding = _KernelBinding(runtime, tuple(roots), operands, outputs)
    bound = binding.bind()
    main = (loop_kernel(runtime, bound) if compiles else None) or block_kernel(runtime, bound)
    first, last, sums = binding.first, binding.last, binding.sums
    if not (first or last or sums):
        return main

    def run() -> None:
        for step in first:
            step()
        for total in sums:
            total.fill(0)
        main()
        for step in last:
            step()

    return run


def _fill_sums(roots: Sequence[Term], outputs: Sequence[Array]) -> Kernel:
    sums = [output for root, output in zip(roots, outputs, strict=True) if uncast(root).function == "sum"]

    def run() -> None:
        for output in sums:
            output.fill(0)

    return run


class _KernelBinding:
    """Arrays for the leaves and the targets of one kernel, and what is done before and after the pass over them."""

    def __init__(
        self, runtime: Runtime, roots: tuple[Term, ...], operands: Sequence[Array], outputs: Sequence[Array]
    ) -> None:
        self._runtime = runtime
        self._xp = runtime.array_module
        self._roots = roots
        self._operands = operands
        self._outputs = outputs
        self._known: dict[Term, Array] = {}
        self._domain = RowDomain(roots)
        self.first: list[Callable[[], object]] = []
        self.last: list[Callable[[], object]] = []
        self.sums: list[Array] = []

    def bind(self) -> TermArrays:
        """Return the arrays of the main pass."""
        terms = walk(self._roots)
        for term in terms:
            self._prepare(term)
        totals = self._totals()
        kept = [
            (root, output)
            for root, output in zip(self._roots, self._outputs, strict=True)
            if root not in totals and not self._copied(root, output)
        ]
        ends = {root: uncast(root) for root in self._roots if root in totals}
        roots = (*(root for root, _ in kept), *dict.fromkeys(ends.values()))
        leaves = self._leaves(roots)
        outputs = [self._domain.aligned(output.reshape(root.shape)) for root, output in kept]
        sums = {ends[root]: self._domain.aligned(total) for root, total in totals.items()}
        arrays = [*leaves.values(), *outputs, *sums.values()]
        fewer, row_rank, found = merged(self._xp, self._domain.ordered_shape, len(self._domain.row_dims), arrays)
        ends_at = len(leaves) + len(outputs)
        return TermArrays(
            fewer,
            row_rank,
            dict(zip(leaves, found[: len(leaves)], strict=True)),
            roots,
            (*found[len(leaves) : ends_at], *found[ends_at:]),
            dict(zip(sums, found[ends_at:], strict=True)),
            self._domain.row_terms(terms),
        )

    def _prepare(self, term: Term) -> None:
        """Give a term that is known before the main pass its array: an operand, a number, or a small result of them."""
        if term.function == "input":
            self._known[term] = self._operands[term.number].reshape(term.shape)
        elif term.function == "constant":
            self._known[term] = term.dtype.type(term.number)
        elif term.function not in REDUCTIONS and self._is_small(term):
            self._known[term] = target = self._xp.empty(term.shape, term.dtype)
            self.first.append(self._call(term, target))

    def _is_small(self, term: Term) -> bool:
        return prod(term.shape) < prod(self._domain.shape) and all(one in self._known for one in term.operands)

    def _call(self, term: Term, target: Array) -> Callable[[], object]:
        xp, operands = self._xp, [self._known[one] for one in term.operands]
        if term.function == "cast":
            return partial(xp.copyto, target, operands[0], casting="unsafe")
        if term.function == "where":
            return lambda: xp.copyto(target, xp.where(*operands))
        return partial(array_function(self._runtime, term.function), *operands, out=target)

    def _totals(self) -> dict[Term, Array]:
        """Return the roots that are sums added up in the main pass, with where."""
        found: dict[Term, Array] = {}
        for root, output in zip(self._roots, self._outputs, strict=True):
            term = uncast(root)
            if term.function == "sum" and term not in self._domain.inner:
                total = next((found[one] for one in found if uncast(one) is term), None)
                if total is None:
                    total = self._xp.empty(term.shape, _WIDE)
                    self.sums.append(total)
                found[root] = total
                self.last.append(partial(self._xp.copyto, output.reshape(term.shape), total, casting="unsafe"))
        return found

    def _copied(self, root: Term, output: Array) -> bool:
        """Return whether a root is small and known before the main pass; then see to its copy."""
        if root not in self._known or prod(root.shape) == prod(self._domain.shape):
            return False
        self.last.append(partial(self._xp.copyto, output.reshape(root.shape), self._known[root]))
        return True

    def _leaves(self, roots: Sequence[Term]) -> dict[Term, Array]:
        """Return the known terms that the main pass reads."""
        read = (term for term in walk(roots, self._known) if term in self._known)
        return {term: self._domain.aligned(self._xp.asarray(self._known[term])) for term in read}


def is_computable(roots: Sequence[Term]) -> bool:
    """Return whether one kernel can compute the roots: they have one domain and one set of inner reductions' dims."""
    inner = inner_reductions(roots)
    shape = domain(roots)
    return len({term.number for term in inner}) <= 1 and all(_shape_before(term) == shape for term in inner)


def _shape_before(term: Term) -> tuple[Any, ...]:
    return term.operands[0].shape
