"""The source of the loop that computes terms: Python that a compiler turns into machine code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mpiparallel.graph.expression import REDUCTIONS, Term, walk
from mpiparallel.graph.term_arrays import TermArrays

_INDENT = "    "

_TEXTS: Final = {
    "add": "({} + {})",
    "subtract": "({} - {})",
    "multiply": "({} * {})",
    "true_divide": "({} / {})",
    "negative": "(-{})",
    "absolute": "abs({})",
    "sqrt": "sqrt({})",
    "log": "log({})",
    "log1p": "log1p({})",
    "sin": "sin({})",
    "cos": "cos({})",
    "floor": "floor({})",
    "square": "({0} * {0})",
    "maximum": "maximum({}, {})",
    "minimum": "minimum({}, {})",
    "sign": "({0} if {0} != {0} else (one({0} > 0) - one({0} < 0)))",
    "equal": "({} == {})",
    "not_equal": "({} != {})",
    "less": "({} < {})",
    "less_equal": "({} <= {})",
    "greater": "({} > {})",
    "greater_equal": "({} >= {})",
    "logical_and": "({} & {})",
    "logical_or": "({} | {})",
    "logical_not": "(not {})",
    "where": "({1} if {0} else {2})",
}
_LONG = 1 << 15
"""Elements of a row above which their sum is made in float64; that of fewer is as exact as the array library's."""
_COSTLY = frozenset(("exp", "log", "tanh"))
"""Functions whose values are kept for the next pass over a row rather than computed again."""


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
        self._level = self._levels()
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

    def _levels(self) -> dict[Term, int]:
        """Return for each term how many passes over a row must be done before it can be computed."""
        level: dict[Term, int] = {}
        for term in walk(self._bound.roots, self._bound.leaves):
            below = max((level[one] for one in term.operands), default=0) if term not in self._leaves else 0
            level[term] = below + (term.function in REDUCTIONS and term not in self._bound.totals)
        return level

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
        last = max(self._level.values())
        keep = self._needed_twice(last)
        for level in range(last + 1):
            self._write_rows(depth, level)
            self._write_pass(depth, level, last, keep)
        self._write_rows(depth, last)
        self._write_row_roots(depth)

    def _ends(self, level: int, last: int) -> list[Term]:
        """Return the terms for which a pass is made."""
        if level < last:
            return [term for term, own in self._level.items() if own == level + 1 and self._is_inner(term)]
        return [root for root in self._bound.roots if not self._bound.is_row(_summed(root, self._bound))]

    def _is_inner(self, term: Term) -> bool:
        return term.function in REDUCTIONS and term not in self._bound.totals

    def _needed_twice(self, last: int) -> set[Term]:
        """Return the costly terms that more than one pass needs."""
        counts: dict[Term, int] = {}
        for level in range(last + 1):
            seen: set[Term] = set()
            stack = [one for end in self._ends(level, last) for one in (end.operands if level < last else (end,))]
            while stack:
                term = stack.pop()
                if term in seen or self._bound.is_row(term) or term in self._leaves:
                    continue
                seen.add(term)
                stack += term.operands
            for term in seen:
                counts[term] = counts.get(term, 0) + 1
        return {term for term, count in counts.items() if count > 1 and term.function in _COSTLY}

    def _write_rows(self, depth: int, level: int) -> None:
        """Compute what has one element a row, as soon as it can be."""
        for term, own in self._level.items():
            ready = self._bound.is_row(term) and own <= level and term.function not in REDUCTIONS
            if ready and term not in self._numbers and term.function != "constant":
                name = f"q{len(self._numbers)}"
                self._line(depth, f"{name} = {self._text(term, self._number)}")
                self._numbers[term] = name

    def _number(self, term: Term) -> str:
        return _constant(term) if term.function == "constant" else self._numbers[term]

    def _write_pass(self, depth: int, level: int, last: int, keep: set[Term]) -> None:
        ends = self._ends(level, last)
        if not ends:
            return
        totals = [(index, end) for index, end in enumerate(ends) if end.function in REDUCTIONS]
        summed = [(index, end) for index, end in totals if level < last or self._is_number(end)]
        for index, end in summed:
            first = f"{self._sum_letter(end)}(0)" if end.function == "sum" else f"{_letter(end.dtype)}(-inf)"
            self._line(depth, f"t{level}_{index} = {first}")
        self._line(depth, f"for k in range(n{depth}):")
        body = _Pass(self, depth + 1, level, keep)
        values = [body.value(end.operands[0] if end.function in REDUCTIONS else end) for end in ends]
        for index, (end, value) in enumerate(zip(ends, values, strict=True)):
            self._write_end(depth + 1, f"t{level}_{index}", end, value, (index, end) in summed)
        for index, end in summed:
            name = f"t{level}_{index}"
            if level == last:
                self._line(depth, f"{self._element(self._place(end))} += f8({name})")
            else:
                self._numbers[end] = name
                self._line(depth, f"{name} = {_letter(end.dtype)}({name})")

    def _write_end(self, depth: int, name: str, end: Term, value: str, is_summed: bool) -> None:
        if not is_summed and end.function in REDUCTIONS:
            target = self._element(self._place(end))
            self._line(depth, f"{target} = {target} + f8({value})")
        elif not is_summed:
            self._line(depth, f"{self._element(self._place(end))} = {value}")
        elif end.function == "sum":
            self._line(depth, f"{name} = add_up({name}, {self._sum_letter(end)}({value}))")
        else:
            self._line(depth, f"{name} = maximum({name}, {value})")

    def _sum_letter(self, term: Term) -> str:
        return "f8" if self._bound.shape[-1] > _LONG else _letter(term.operands[0].dtype)

    def _is_number(self, total: Term) -> bool:
        return self._operands[self._place(total)].steps[-1] == 0

    def _place(self, root: Term) -> int:
        return self._outputs[self._bound.roots.index(root)]

    def _write_row_roots(self, depth: int) -> None:
        for root, place in zip(self._bound.roots, self._outputs, strict=True):
            given, target = _summed(root, self._bound), self._element(place)
            if self._bound.is_row(given):
                text = self._number(given)
                self._line(depth, f"{target} = {text}" if given is root else f"{target} = {target} + f8({text})")

    def _text(self, term: Term, name: Any) -> str:
        """Return the formula of a term, given the names of its operands."""
        names = [name(one) for one in term.operands]
        letter = _letter(term.dtype)
        if term.function == "cast":
            return f"({names[0]} != 0)" if term.dtype.kind == "b" else f"{letter}({names[0]})"
        if term.function in ("exp", "tanh"):
            return f"{term.function}_{letter}({names[0]})"
        if term.dtype.kind == "f":
            choice = term.function == "where"
            names = [
                text if one.dtype == term.dtype or (choice and not index) else f"{letter}({text})"
                for index, (one, text) in enumerate(zip(term.operands, names, strict=True))
            ]
        return _TEXTS[term.function].format(*names).replace("one(", f"{letter}(")

    def new_scratch(self, term: Term) -> str:
        """Return the name of a row in which a term is kept."""
        self.scratch.append(term.dtype)
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

    def _compute(self, term: Term) -> str:
        source = self._source
        if term.function == "constant":
            return _constant(term)
        if term in source._numbers:
            return source._numbers[term]
        if term in source._leaves:
            text = source._element(source._leaves[term])
        elif term in source._kept:
            text = f"{source._kept[term]}[k]"
        else:
            operands = [self.value(one) for one in term.operands]
            text = source._text(term, dict(zip(term.operands, operands, strict=True)).__getitem__)
        name = f"v{self._level}_{self._count}"
        self._count += 1
        source._line(self._depth, f"{name} = {text}")
        if term in self._keep and term not in source._kept:
            source._kept[term] = source.new_scratch(term)
            source._line(self._depth, f"{source._kept[term]}[k] = {name}")
        return name


def _summed(root: Term, bound: TermArrays) -> Term:
    """Return what a root that is a total adds up; other roots themselves."""
    return root.operands[0] if root in bound.totals else root


def _letter(dtype: np.dtype[Any]) -> str:
    return {"f": "f4", "d": "f8", "?": "bool"}.get(dtype.char, f"int{dtype.itemsize * 8}")


def _constant(term: Term) -> str:
    if term.dtype.kind == "b":
        return repr(bool(term.number))
    return f"{_letter(term.dtype)}({float(term.number) if term.dtype.kind == 'f' else int(term.number)!r})"
