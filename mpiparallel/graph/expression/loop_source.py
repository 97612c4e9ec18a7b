"""The source of the loop that computes terms: Python that a compiler turns into machine code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mpiparallel.dataclass import dataclass
from mpiparallel.graph.expression.loop_text import constant_text, formula, is_costly, letter_of
from mpiparallel.graph.expression.passes import Passes
from mpiparallel.graph.expression.term import REDUCTIONS, Term
from mpiparallel.graph.expression.term_arrays import TermArrays

_INDENT = "    "

_LONG = 1 << 15
"""Elements of a row above which their sum is made in float64; that of fewer is as exact as the array library's."""


@dataclass(frozen=True)
class Operand:
    """How an array is stepped through: for each dim 0 where it has one element, 1 where they are neighbours, else 2."""

    steps: tuple[int, ...]

    def counted(self, rank: int) -> list[int]:
        """Return the dims whose stride is an argument of the loop."""
        return [dim for dim in range(rank) if self.steps[dim] and (dim < rank - 1 or self.steps[dim] == 2)]


class LoopSource:
    """The text of one loop nest; the innermost dim is that of rows.

    ``leaves`` and ``outputs`` say which operand holds a term. ``scratch`` are the dtypes of rows that the loop needs to
    keep values in, its last arguments.
    """

    def __init__(
        self, bound: TermArrays, operands: Sequence[Operand], leaves: dict[Term, int], outputs: Sequence[int]
    ) -> None:
        self._bound = bound
        self._operands = operands
        self._leaves = {term: place for term, place in leaves.items() if term.function != "constant"}
        self._outputs = outputs
        self._rank = len(bound.shape)
        self._passes = Passes(bound, self._leaves)
        self._numbers: dict[Term, str] = {}
        self._kept: dict[Term, str] = {}
        self._lines: list[str] = []
        self.scratch: list[np.dtype[Any]] = []

    def write(self) -> str:
        """Return the source."""
        outer = range(self._rank - 1)
        for dim in outer:
            self._line(dim, f"for i{dim} in range(n{dim}):")
        depth = self._rank - 1
        for index, operand in enumerate(self._operands):
            self._enter_row(depth, index, operand)
        self._write_passes(depth)
        arguments = [f"n{dim}" for dim in range(self._rank)]
        for index, operand in enumerate(self._operands):
            arguments += [f"a{index}", *(f"a{index}_{dim}" for dim in operand.counted(self._rank))]
        arguments += [f"w{index}" for index in range(len(self.scratch))]
        return "\n".join([f"def kernel({', '.join(arguments)}):", *self._lines]) + "\n"

    def _line(self, depth: int, text: str) -> None:
        self._lines.append(_INDENT * (depth + 1) + text)

    def _enter_row(self, depth: int, index: int, operand: Operand) -> None:
        base = " + ".join(f"i{dim} * a{index}_{dim}" for dim in operand.counted(self._rank) if dim < depth)
        inner = operand.steps[-1]
        if inner == 1:
            self._line(depth, f"r{index} = a{index}[{base}:{base} + n{depth}]" if base else f"r{index} = a{index}")
        else:
            self._line(depth, f"b{index} = {base or '0'}")

    def _element(self, index: int) -> str:
        inner = self._operands[index].steps[-1]
        if inner == 1:
            return f"r{index}[k]"
        return f"a{index}[b{index}]" if inner == 0 else f"a{index}[b{index} + k * a{index}_{self._rank - 1}]"

    def _write_passes(self, depth: int) -> None:
        for term, place in self._leaves.items():
            if self._operands[place].steps[-1] == 0:
                self._line(depth, f"s{place} = {self._element(place)}")
                self._numbers[term] = f"s{place}"
        final = self._passes.final
        keep = self._passes.repeated(lambda term: term not in self._leaves and is_costly(term))
        for level in range(final + 1):
            self._write_rows(depth, level)
            self._write_pass(depth, level, keep)
        self._write_rows(depth, final + 1)
        self._write_row_roots(depth)

    def _write_rows(self, depth: int, level: int) -> None:
        """Compute what has one element a row, as soon as it can be."""
        for term, own in self._passes.level.items():
            ready = self._bound.is_row(term) and own <= level and term.function not in REDUCTIONS
            if ready and term not in self._numbers and term.function != "constant":
                name = f"q{len(self._numbers)}"
                self._line(depth, f"{name} = {formula(term, self._number)}")
                self._numbers[term] = name

    def _number(self, term: Term) -> str:
        return constant_text(term) if term.function == "constant" else self._numbers[term]

    def _write_pass(self, depth: int, level: int, keep: set[Term]) -> None:
        ends = self._passes.ends(level)
        if not ends:
            return
        sums = {end: f"t{level}_{index}" for index, end in enumerate(ends) if self._is_number(end)}
        for end, name in sums.items():
            first = f"{self._sum_letter(end)}(0)" if end.function == "sum" else f"{letter_of(end.dtype)}(-inf)"
            self._line(depth, f"{name} = {first}")
        self._line(depth, f"for k in range(n{depth}):")
        body = _Pass(self, depth + 1, level, keep)
        values = {end: body.value(self._passes.passed_over(end)) for end in ends}
        apart = body.is_costly
        columns = [self._write_end(depth + 1, end, value, sums.get(end), apart) for end, value in values.items()]
        for end, name in sums.items():
            self._write_sum(depth, end, name)
        for end, column in zip(values, columns, strict=True):
            if column:
                self._line(depth, f"for k in range(n{depth}):")
                self._add_to_column(depth + 1, end, f"{column}[k]")

    def _write_end(self, depth: int, end: Term, value: str, name: str | None, apart: bool) -> str:
        """Write what becomes of a value; return the row in which it waits to be added to sums of columns."""
        if name is not None and end.function == "sum":
            self._line(depth, f"{name} = add_up({name}, {self._sum_letter(end)}({value}))")
        elif name is not None:
            self._line(depth, f"{name} = maximum({name}, {value})")
        elif end in self._bound.totals and not apart:
            self._add_to_column(depth, end, value)
        elif end in self._bound.totals:
            # In a loop of its own: beside float64 costly functions would be computed in vectors of half the length.
            row = self._scratch_row(end.operands[0].dtype)
            self._line(depth, f"{row}[k] = {value}")
            return row
        else:
            self._line(depth, f"{self._element(self._place(end))} = {value}")
        return ""

    def _add_to_column(self, depth: int, end: Term, value: str) -> None:
        target = self._element(self._place(end))
        self._line(depth, f"{target} = {target} + f8({value})")

    def _write_sum(self, depth: int, end: Term, name: str) -> None:
        if end in self._bound.totals:
            self._line(depth, f"{self._element(self._place(end))} += f8({name})")
        else:
            self._numbers[end] = name
            self._line(depth, f"{name} = {letter_of(end.dtype)}({name})")

    def _is_number(self, end: Term) -> bool:
        """Return whether an end is a reduction to one number a row."""
        in_columns = end in self._bound.totals and self._operands[self._place(end)].steps[-1] != 0
        return end.function in REDUCTIONS and not in_columns

    def _sum_letter(self, term: Term) -> str:
        return "f8" if self._bound.shape[-1] > _LONG else letter_of(term.operands[0].dtype)

    def _place(self, root: Term) -> int:
        return self._outputs[self._bound.roots.index(root)]

    def _write_row_roots(self, depth: int) -> None:
        for root, place in zip(self._bound.roots, self._outputs, strict=True):
            given, target = self._passes.summed(root), self._element(place)
            if self._bound.is_row(given):
                text = self._number(given)
                self._line(depth, f"{target} = {text}" if given is root else f"{target} = {target} + f8({text})")

    def kept_row(self, term: Term) -> str:
        """Return the name of a row in which a term is kept: that of an output which is written later, or scratch."""
        for root in self._passes.whole_roots():
            place = self._place(root)
            taken = f"r{place}" in self._kept.values() or place in self._leaves.values()
            fits = root.dtype == term.dtype and root not in self._bound.totals
            if fits and not taken and self._operands[place].steps[-1] == 1:
                return f"r{place}"
        return self._scratch_row(term.dtype)

    def _scratch_row(self, dtype: np.dtype[Any]) -> str:
        self.scratch.append(dtype)
        return f"w{len(self.scratch) - 1}"


class _Pass:
    """The statements of one pass over a row."""

    def __init__(self, source: LoopSource, depth: int, level: int, keep: set[Term]) -> None:
        self._source = source
        self._depth = depth
        self._level = level
        self._keep = keep
        self._count = 0
        self._names: dict[Term, str] = {}

    def value(self, term: Term) -> str:
        """Return the name of a term's value, computed before it is used."""
        if term not in self._names:
            self._names[term] = self._compute(term)
        return self._names[term]

    @property
    def is_costly(self) -> bool:
        """Whether a costly function is computed in the pass."""
        return any(map(is_costly, self._names))

    def _compute(self, term: Term) -> str:
        source = self._source
        if term.function == "constant":
            return constant_text(term)
        if term in source._numbers:
            return source._numbers[term]
        if term in source._leaves:
            text = source._element(source._leaves[term])
        elif term in source._kept:
            text = f"{source._kept[term]}[k]"
        else:
            operands = [self.value(one) for one in term.operands]
            text = formula(term, dict(zip(term.operands, operands, strict=True)).__getitem__)
        name = f"v{self._level}_{self._count}"
        self._count += 1
        source._line(self._depth, f"{name} = {text}")
        if term in self._keep and term not in source._kept:
            source._kept[term] = source.kept_row(term)
            source._line(self._depth, f"{source._kept[term]}[k] = {name}")
        return name
