"""The passes over a row that compute terms: which reductions come first, what each pass computes, what it repeats."""

from __future__ import annotations

from collections.abc import Callable, Container

from mpiparallel.graph.expression.term import REDUCTIONS, Term, walk
from mpiparallel.graph.expression.term_arrays import TermArrays


class Passes:
    """The passes over a row, counted from 0 to ``final``; a reduction ends the pass whose number is its level less 1.

    ``leaves`` are the terms that are read from memory.
    """

    def __init__(self, bound: TermArrays, leaves: Container[Term]) -> None:
        self._bound = bound
        self._leaves = leaves
        self.level = self._levels()
        inner = [own - 1 for term, own in self.level.items() if self.is_inner(term)]
        self.final = max([*inner, *(self.level[self.summed(root)] for root in self.whole_roots())], default=0)

    def _levels(self) -> dict[Term, int]:
        """Return for each term how many passes over a row must be done before it can be computed."""
        level: dict[Term, int] = {}
        for term in walk(self._bound.roots, self._bound.leaves):
            below = max((level[one] for one in term.operands), default=0) if term not in self._leaves else 0
            level[term] = below + (term.function in REDUCTIONS and term not in self._bound.totals)
        return level

    def is_inner(self, term: Term) -> bool:
        """Return whether a term is a reduction from which something else is computed, or a root with one a row."""
        return term.function in REDUCTIONS and term not in self._bound.totals

    def summed(self, root: Term) -> Term:
        """Return what a root that is a total adds up; other roots themselves."""
        return root.operands[0] if root in self._bound.totals else root

    def whole_roots(self) -> list[Term]:
        """Return the roots for which something is computed of each element in the last pass."""
        return [root for root in self._bound.roots if not self._bound.is_row(self.summed(root))]

    def ends(self, level: int) -> list[Term]:
        """Return the terms for which a pass is made."""
        inner = [term for term, own in self.level.items() if own == level + 1 and self.is_inner(term)]
        return [*inner, *(self.whole_roots() if level == self.final else ())]

    @staticmethod
    def passed_over(end: Term) -> Term:
        """Return what a pass computes for an end: what a reduction reduces, else itself."""
        return end.operands[0] if end.function in REDUCTIONS else end

    def repeated(self, is_wanted: Callable[[Term], bool]) -> set[Term]:
        """Return the terms of a kind that more than one pass needs."""
        counts: dict[Term, int] = {}
        for level in range(self.final + 1):
            seen: set[Term] = set()
            stack = [self.passed_over(end) for end in self.ends(level)]
            while stack:
                term = stack.pop()
                if term in seen or self._bound.is_row(term):
                    continue
                seen.add(term)
                stack += () if term in self._leaves else term.operands
            for term in seen:
                counts[term] = counts.get(term, 0) + 1
        return {term for term, count in counts.items() if count > 1 and is_wanted(term)}
