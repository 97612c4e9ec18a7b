"""The CUDA kernel of terms with reductions: teams of threads pass over rows, and leave parts of sums to be added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.graph.expression.cuda.body import CudaBody
from mpiparallel.graph.expression.cuda.elements import add_operands, add_row_starts
from mpiparallel.graph.expression.cuda.kernel_text import KernelLaunch, KernelText
from mpiparallel.graph.expression.cuda.operand import CudaOperand
from mpiparallel.graph.expression.cuda.row_plan import WARP, RowPlan, is_column, reduced_dims
from mpiparallel.graph.expression.cuda.text import computed_type, cuda_constant, cuda_formula, loaded, lowest, stored
from mpiparallel.graph.expression.loop_text import is_costly
from mpiparallel.graph.expression.passes import Passes
from mpiparallel.graph.expression.term import REDUCTIONS, Term
from mpiparallel.graph.expression.term_arrays import TermArrays

_LONG: Final = 1 << 15
"""Elements of a row above which their sum is made in float64; that of fewer is as exact as the array library's."""

_REGISTERS: Final = 64
"""Registers of a thread that may hold values for the next pass over a row."""


class RowSource:
    """The text of one kernel. ``parts`` are arrays for sums over more than one team, as ``part_counts`` asks for."""

    def __init__(
        self,
        bound: TermArrays,
        operands: Sequence[CudaOperand],
        leaves: dict[Term, int],
        outputs: Sequence[int],
        plan: RowPlan,
        index: str,
    ) -> None:
        self._bound = bound
        self._operands = operands
        self._leaves = leaves
        self._outputs = dict(zip(bound.roots, outputs, strict=True))
        self._plan = plan
        self._outer = len(bound.shape) - bound.row_rank
        self._rows = range(self._outer, len(bound.shape))
        self._passes = Passes(bound, leaves)
        self._numbers: dict[Term, str] = {}
        self._kept = self._kept_terms()
        self._filled: set[Term] = set()
        self._text = KernelText(index, plan.lanes * plan.teams_a_block)
        self._split = [term for term in bound.totals if self._is_split(term)]

    def part_counts(self) -> dict[Term, int]:
        """Return how many numbers each part of a total has, of those totals that several teams add to."""
        extent = int(np.prod(self._bound.shape[self._outer :]))
        pieces = 1 if self._plan.cuts_reduced else self._plan.pieces
        kept = self._plan.kept_count // pieces
        return {term: kept * (extent if is_column(self._bound, term) else 1) for term in self._split}

    def launch(self, parts: dict[Term, Array]) -> KernelLaunch:
        """Return the kernel."""
        plan, text, bound = self._plan, self._text, self._bound
        add_operands(text, bound.shape, self._operands)
        for number, name in (
            (plan.kept_count, "kept"),
            (plan.reduced_count, "reduced"),
            (plan.share, "share"),
            (plan.teams, "teams"),
            (plan.pieces, "pieces"),
        ):
            text.add_number(name, number)
        for place, term in enumerate(self._split):
            text.add_array(f"p{place}", "double", parts[term], is_output=True)
        self._enter()
        text.line(0, "for (; unit < end; ++unit) {")
        self._enter_row()
        for level in range(self._passes.final + 1):
            self._write_rows(level)
            self._write_pass(level)
        self._write_rows(self._passes.final + 1)
        self._write_row_roots()
        text.line(0, "}")
        self._write_parts()
        return text.launch(-(-plan.teams // plan.teams_a_block))

    def _is_split(self, term: Term) -> bool:
        dims = reduced_dims(self._bound, term, self._outer)
        cut = self._plan.cuts_reduced and self._plan.pieces > 1
        return bool(dims) or is_column(self._bound, term) or (cut and not self._bound.is_row(term.operands[0]))

    def _kept_terms(self) -> dict[Term, str]:
        """Return what is held in registers from one pass to the next, named: what is costly or read from memory."""
        held = self._plan.held
        repeated = self._passes.repeated(
            lambda term: is_costly(term) or (term in self._leaves and any(self._steps_in_row(term)))
        )
        words = 0
        found: dict[Term, str] = {}
        for term in self._passes.level:
            words += held * max(term.dtype.itemsize // 4, 1) if term in repeated else 0
            if term in repeated and held and words <= _REGISTERS:
                found[term] = f"held{len(found)}"
        return found

    def _steps_in_row(self, leaf: Term) -> list[int]:
        return [self._operands[self._leaves[leaf]].steps[dim] for dim in self._rows]

    def _enter(self) -> None:
        """Write where a thread belongs, and what it holds."""
        plan, text, index = self._plan, self._text, self._text.index
        if plan.lanes == WARP:
            text.line(0, f"const int lane = threadIdx.x % {WARP};")
            text.line(0, f"const {index} team = ({index})blockIdx.x * {plan.teams_a_block} + threadIdx.x / {WARP};")
            text.line(0, "if (team >= teams) return;")
        else:
            text.line(0, "const int lane = threadIdx.x;", f"const {index} team = blockIdx.x;")
        text.line(0, f"const {index} own = team % kept, chunk = team / kept;", f"{index} rest = own;")
        if not plan.cuts_reduced:
            text.line(0, f"const {index} piece = rest % pieces;", "rest /= pieces;")
        text.line(0, f"const {index} place = rest;")
        text.unravel(0, "rest", plan.kept)
        text.line(0, f"{index} unit = chunk * share;")
        text.line(0, f"const {index} end = unit + share < reduced ? unit + share : reduced;")
        for term, name in self._kept.items():
            text.line(0, f"{computed_type(term.dtype)} {name}[{plan.held}];")
        for number, term in enumerate(self._split):
            if not is_column(self._bound, term):
                text.line(0, f"double c{number} = 0;")
            elif plan.turns:
                text.line(0, f"double c{number}[{plan.held}] = {{}};")

    def _enter_row(self) -> None:
        plan, text, index = self._plan, self._text, self._text.index
        text.line(1, f"{index} at = unit;")
        if plan.cuts_reduced:
            text.line(1, f"const {index} piece = at % pieces;", "at /= pieces;")
        text.unravel(1, "at", plan.reduced)
        add_row_starts(text, 1, self._operands, dict.fromkeys(range(self._outer)))
        for term, place in self._leaves.items():
            if not any(self._steps_in_row(term)):
                operand = self._operands[place]
                text.line(1, f"const {computed_type(term.dtype)} q{place} = {loaded(operand.dtype, f'r{place}[0]')};")
                self._numbers[term] = f"q{place}"

    def _write_rows(self, level: int) -> None:
        """Compute what has one element a row, as soon as it can be."""
        for term, own in self._passes.level.items():
            ready = self._bound.is_row(term) and own <= level and term.function not in REDUCTIONS
            if ready and term not in self._numbers and term.function != "constant":
                name = f"n_{len(self._numbers)}"
                formula = cuda_formula(term, self._number)
                self._text.line(1, f"const {computed_type(term.dtype)} {name} = {formula};")
                self._numbers[term] = name

    def _number(self, term: Term) -> str:
        return cuda_constant(term) if term.function == "constant" else self._numbers[term]

    def _enter_elements(self, depth: int) -> int:
        """Write the loop over a thread's elements of a row; return the depth of what is in it."""
        plan, text, index = self._plan, self._text, self._text.index
        extent = " * ".join(f"n{dim}" for dim in self._rows)
        text.line(depth, f"const {index} extent = {extent};")
        if plan.turns:
            text.line(depth, "#pragma unroll", f"for (int turn = 0; turn < {plan.turns}; ++turn) {{")
            start = f"piece * {plan.piece} + (turn * {plan.lanes} + lane) * {plan.width}"
            text.line(depth + 1, f"const {index} k = {start};", "if (k >= extent) continue;")
        else:
            stride = plan.lanes * plan.width
            text.line(depth, f"for ({index} k = ({index})lane * {plan.width}; k < extent; k += {stride}) {{")
        if self._bound.row_rank > 1:
            text.line(depth + 1, f"{index} left = k;")
            text.unravel(depth + 1, "left", self._rows)
        return depth + 1

    def _row_names(self) -> dict[int, str]:
        return {dim: "k" if self._bound.row_rank == 1 else f"i{dim}" for dim in self._rows}

    def _write_pass(self, level: int) -> None:
        ends = self._passes.ends(level)
        if not ends:
            return
        names = {end: f"t{level}_{number}" for number, end in enumerate(ends) if self._is_number(end)}
        for end, name in names.items():
            text = f"{self._sum_type(end)} {name} = {lowest(end.dtype) if end.function == 'max' else '0'};"
            self._text.line(1, text)
        self._text.line(1, "{")
        depth = self._enter_elements(2)
        slot = f"turn * {self._plan.width} + v" if self._plan.width > 1 else "turn"
        known = {**self._numbers, **{term: f"{self._kept[term]}[{slot}]" for term in self._filled}}
        body = CudaBody(self._operands, self._leaves, known, self._row_names(), self._plan.width)
        values = {end: body.value(self._passes.passed_over(end)) for end in ends}
        for end, value in values.items():
            self._write_end(body, end, value, names.get(end), slot)
        for term, name in self._kept.items():
            if body.has(term) and term not in self._filled:
                body.steps.append(f"{name}[{slot}] = {body.value(term)};")
                self._filled.add(term)
        self._text.line(depth, *body.lines())
        self._text.line(2, "}")
        self._text.line(1, "}")
        for end, name in names.items():
            self._write_sum(end, name)

    def _is_number(self, end: Term) -> bool:
        """Return whether an end is a reduction that is known once its row is passed over."""
        return self._passes.is_inner(end) or (end in self._bound.totals and end not in self._split)

    def _sum_type(self, end: Term) -> str:
        is_wide = end in self._bound.totals or int(np.prod(self._bound.shape[self._outer :])) > _LONG
        return "double" if is_wide and end.function == "sum" else computed_type(end.operands[0].dtype)

    def _write_end(self, body: CudaBody, end: Term, value: str, name: str | None, slot: str) -> None:
        if name is not None:
            body.steps.append(f"{name} += {value};" if end.function == "sum" else f"{name} = maximum({name}, {value});")
        elif end in self._split:
            number = self._split.index(end)
            if not is_column(self._bound, end):
                target = f"c{number}"
            elif self._plan.turns:
                target = f"c{number}[{slot}]"
            else:
                lane = " + v" if self._plan.width > 1 else ""
                target = f"p{number}[(chunk * (kept / pieces) + place) * extent + k{lane}]"
                body.steps.append(f"if (unit == chunk * share) {target} = 0;")
            body.steps.append(f"{target} += {value};")
        else:
            body.write(self._outputs[end], value)

    def _write_sum(self, end: Term, name: str) -> None:
        way = "Max" if end.function == "max" else "Sum"
        none = lowest(end.dtype) if end.function == "max" else "0"
        whole = self._over_team(way, self._sum_type(end), name, none)
        if end in self._bound.totals:
            self._text.line(1, f"{name} = {whole};")
            self._write_one(end, name)
        else:
            self._numbers[end] = f"{name}w"
            kind = computed_type(end.dtype)
            self._text.line(1, f"const {kind} {name}w = ({kind}){whole};")

    def _over_team(self, way: str, kind: str, name: str, none: str) -> str:
        if self._plan.lanes == WARP:
            return f"over_warp<{way}>({name})"
        return f"over_block<{way}, {self._plan.lanes}, {kind}>({name}, {none})"

    def _write_one(self, root: Term, value: str) -> None:
        """Let one thread of the team write a number of a row."""
        operand = self._operands[self._outputs[root]]
        self._text.line(1, f"if (lane == 0) r{operand.index}[0] = {stored(operand.dtype, value)};")

    def _write_row_roots(self) -> None:
        for root in self._bound.roots:
            given = self._passes.summed(root)
            if not self._bound.is_row(given):
                continue
            if root in self._split:
                self._text.line(1, f"c{self._split.index(root)} += {self._number(given)};")
            else:
                self._write_one(root, self._number(given))

    def _write_parts(self) -> None:
        """Write a team's parts of the totals."""
        plan, text = self._plan, self._text
        for number, term in enumerate(self._split):
            if is_column(self._bound, term):
                if plan.turns:
                    text.line(0, "{")
                    depth = self._enter_elements(1)
                    text.line(depth, "#pragma unroll", f"for (int v = 0; v < {plan.width}; ++v) {{")
                    target = f"p{number}[(chunk * (kept / pieces) + place) * extent + k + v]"
                    text.line(depth + 1, f"{target} = c{number}[turn * {plan.width} + v];")
                    text.line(depth, "}")
                    text.line(1, "}")
                    text.line(0, "}")
                continue
            whole = f"c{number}"
            if not self._bound.is_row(term.operands[0]):
                whole = self._over_team("Sum", "double", whole, "0")
            text.line(0, f"c{number} = {whole};", f"if (lane == 0) p{number}[team] = c{number};")
