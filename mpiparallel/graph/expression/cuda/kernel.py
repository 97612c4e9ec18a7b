"""Terms computed by CUDA kernels: what is small and costly first, then one kernel, then the sums of its parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from math import prod
from typing import Any, Final

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.expression.cuda.domain import apart, row_dims_of, small_terms
from mpiparallel.graph.expression.cuda.elements import element_launch
from mpiparallel.graph.expression.cuda.kernel_text import KernelLaunch
from mpiparallel.graph.expression.cuda.memory_order import in_memory_order
from mpiparallel.graph.expression.cuda.operand import CudaOperand, index_type
from mpiparallel.graph.expression.cuda.row_plan import is_column, row_plan
from mpiparallel.graph.expression.cuda.rows import RowSource
from mpiparallel.graph.expression.cuda.text import is_written
from mpiparallel.graph.expression.cuda.totals import totals_launch
from mpiparallel.graph.expression.row_domain import RowDomain
from mpiparallel.graph.expression.term import Term, operand, reduce, uncast, walk
from mpiparallel.graph.expression.term_arrays import TermArrays, merged

_FIRST_SLOT: Final = 16
_WIDE: Final = np.dtype(np.float64)


def is_cuda_computable(runtime: Runtime, roots: Sequence[Term]) -> bool:
    """Return whether the device compiles CUDA texts, and terms can be written as such: those of no complex numbers."""
    return runtime.backend.kernels is not None and all(map(is_written, walk(roots)))


def cuda_kernel(runtime: Runtime, roots: Sequence[Term], operands: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
    """Return what computes each root from the operands into its output, in as few launches as can be."""
    steps: list[Kernel] = []
    turned, views, targets = in_memory_order(roots, operands, outputs)
    _LaunchBinding(runtime, steps, count(_FIRST_SLOT), views).bind(turned, targets)
    if len(steps) == 1:
        return steps[0]

    def run() -> None:
        for step in steps:
            step()

    return run


class _LaunchBinding:
    """Launches in the order of ``steps``; ``slots`` are those of scratch memory that are free."""

    def __init__(self, runtime: Runtime, steps: list[Kernel], slots: Iterator[int], operands: Sequence[Array]) -> None:
        self._runtime = runtime
        self._steps = steps
        self._slots = slots
        self._operands = operands

    def bind(self, roots: tuple[Term, ...], outputs: Sequence[Array]) -> None:
        """Add what computes the roots."""
        others = apart(roots)
        if len(roots) == 1 and others:
            self._bind_by_way_of_operand(roots[0], outputs[0])
            return
        kept: list[tuple[Term, Array]] = []
        copies: list[tuple[Array, Array]] = []
        for place, (root, output) in enumerate(zip(roots, outputs, strict=True)):
            if place in others:
                # Its output may be what others still read.
                aside = self._scratch(root.shape, root.dtype)
                self.bind((root,), [aside])
                copies.append((aside, output))
            else:
                kept.append((root, output))
        together = self.bind if others else self._bind_together
        together(tuple(root for root, _ in kept), [output for _, output in kept])
        for source, target in copies:
            term = operand(0, source.shape, source.dtype)
            _LaunchBinding(self._runtime, self._steps, self._slots, [source]).bind((term,), [target])

    def _scratch(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return self._runtime.scratch(shape, dtype, next(self._slots))

    def _bind_by_way_of_operand(self, root: Term, output: Array) -> None:
        """Add a sum that goes neither along rows nor across them: what it adds up is computed first."""
        total = uncast(root)
        (x,) = total.operands
        whole = self._scratch(x.shape, x.dtype)
        self.bind((x,), [whole])
        alone = reduce("sum", operand(0, x.shape, x.dtype), total.number).astype(root.dtype)
        _LaunchBinding(self._runtime, self._steps, self._slots, [whole]).bind((alone,), [output])

    def _bind_together(self, roots: tuple[Term, ...], outputs: Sequence[Array]) -> None:
        known: dict[Term, Array] = {}
        for term in small_terms(roots):
            aside = self._scratch(term.shape, term.dtype)
            self.bind((term,), [aside])
            known[term] = aside
        self._add_launches(*self._bound(roots, outputs, known))

    def _bound(
        self, roots: tuple[Term, ...], outputs: Sequence[Array], known: dict[Term, Array]
    ) -> tuple[TermArrays, RowDomain]:
        rows = RowDomain(roots, row_dims_of(roots))
        totals = {uncast(root) for root in roots} - set(rows.inner)
        ends = tuple(
            uncast(root) if uncast(root).function == "sum" and uncast(root) in totals else root for root in roots
        )
        terms = walk(ends, known)
        leaves = {term: known[term] for term in terms if term in known}
        leaves |= {term: self._operands[term.number].reshape(term.shape) for term in terms if term.function == "input"}
        targets = [output.reshape(root.shape) for root, output in zip(roots, outputs, strict=True)]
        arrays = [rows.aligned(array) for array in (*leaves.values(), *targets)]
        shape, row_rank, found = merged(self._runtime.array_module, rows.ordered_shape, len(rows.row_dims), arrays)
        if not shape or (rows.row_dims and not row_rank):
            shape, row_rank = (*shape, 1), row_rank + bool(rows.row_dims)
            found = [array.reshape((*array.shape, 1)) for array in found]
        given = dict(zip(leaves, found, strict=False))
        placed = tuple(found[len(leaves) :])
        sums = {end: array for end, array in zip(ends, placed, strict=True) if end.function == "sum" and end in totals}
        return TermArrays(shape, row_rank, given, ends, placed, sums, rows.row_terms(terms)), rows

    def _add_launches(self, bound: TermArrays, rows: RowDomain) -> None:
        operands, leaves, outputs = self._unique(bound)
        if not rows.row_dims:
            self._add(element_launch(bound, operands, leaves, outputs))
            return
        plan = row_plan(bound, operands, has_inner=bool(rows.inner))
        outer = len(bound.shape) - bound.row_rank
        index = index_type(operands, max(prod(bound.shape), plan.teams * plan.lanes))
        source = RowSource(bound, operands, leaves, outputs, plan, index)
        counts = source.part_counts()
        parts = {term: self._scratch((plan.chunks, number), _WIDE) for term, number in counts.items()}
        self._add(source.launch(parts))
        for term, number in counts.items():
            output = operands[outputs[bound.roots.index(term)]]
            kept = (*plan.kept, *(range(outer, len(bound.shape)) if is_column(bound, term) else ()))
            self._add(totals_launch(parts[term], plan.chunks, number, output, kept, index))

    def _add(self, launch: KernelLaunch) -> None:
        kernels = self._runtime.backend.kernels
        if kernels is not None:
            self._steps.append(kernels.bind(launch.name, launch.text, launch.blocks, launch.threads, launch.arguments))

    def _unique(self, bound: TermArrays) -> tuple[list[CudaOperand], dict[Term, int], list[int]]:
        """Return the arrays, each once, and where leaves and roots are among them."""
        address = self._runtime.backend.address
        arrays = [*bound.leaves.values(), *bound.outputs]
        places: dict[object, int] = {}
        positions = []
        for array in arrays:
            key = (address(array), array.shape, array.strides, array.dtype)
            positions.append(places.setdefault(key, len(places)))
        written = set(positions[len(bound.leaves) :])
        operands = [
            CudaOperand(place, arrays[positions.index(place)], key[0], bound.shape, place in written)  # type: ignore[index]
            for key, place in places.items()
        ]
        leaves = dict(zip(bound.leaves, positions, strict=False))
        return operands, leaves, positions[len(bound.leaves) :]
