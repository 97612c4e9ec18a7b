"""The best options within a memory limit by an integer program, which SciPy's HiGHS solves; its answers are checked."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, Final

import numpy as np

from mpiparallel.search.methods.memory_bound import Priced
from mpiparallel.search.problem.problem import Problem
from mpiparallel.search.problem.views import Array, Table, View, refined

_MOST_CELLS: Final = 20_000
_MOST_SECONDS: Final = 30.0
_TRUST: Final = 1e-6


def programmed(problem: Problem, limit: float, seconds_left: float = inf) -> Priced | None:
    """Return the best options within ``limit`` bytes; None where there is no SciPy, no time, or too large a problem.

    Also None where the options that the solver calls best do not fit or do not cost what it says.
    """
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp  # an optional extra
    except ImportError:
        return None
    cells = sum(table.values.size for table in (*problem.seconds, *problem.memory))
    if cells > _MOST_CELLS or seconds_left <= 0:
        return None
    program = _IntegerProgram(problem, limit)
    found = milp(
        program.costs,
        integrality=program.integrality,
        bounds=Bounds(0, program.most),
        constraints=LinearConstraint(program.matrix, program.least_sums, program.most_sums),
        options={"mip_rel_gap": 0.0, "time_limit": min(seconds_left, _MOST_SECONDS)},
    )
    if found.status != 0 or found.x is None:
        return None
    options = program.options(found.x)
    seconds, held = problem.cost(options), problem.bytes(options)
    told = found.fun * program.unit
    if held > limit or abs(seconds - told) > _TRUST * seconds:
        return None
    return Priced(options, seconds, held, min(seconds, found.mip_dual_bound * program.unit))


class _IntegerProgram:
    """A variable for each class of a choice, one of which is 1, and one for each cell of a table of several choices.

    The cells of a row of a table sum up to the classes that see it. Seconds are in units of the dearest cell, bytes in
    those of the limit.
    """

    def __init__(self, problem: Problem, limit: float) -> None:
        tables = [*problem.seconds, *problem.memory]
        self._views = _joint_views(tables, problem.counts)
        starts = np.cumsum([0, *(view.count for view in self._views)])
        self._starts: list[int] = starts.tolist()
        self._sizes = self._starts[-1]
        finite = [float(table.values[np.isfinite(table.values)].max(initial=0)) for table in problem.seconds]
        self.unit = max(*finite, 1e-12)
        self._costs, self._bytes, self._most = ([np.zeros(self._sizes)] for _ in range(3))
        self._most[0] += 1
        self._entries: list[tuple[Array, Array, Array]] = []
        self._rows, self._right = 0, [np.zeros(0)]
        for choice in range(len(problem.counts)):
            span = np.arange(self._starts[choice], self._starts[choice + 1])
            self._row(np.zeros(span.size, np.int64), span, np.ones(span.size), 1, 1.0)
        self._fixed_bytes = 0.0
        for table in problem.seconds:
            self._add(table, is_memory=False)
        for table in problem.memory:
            self._add(table, is_memory=True)
        self.costs, held = np.concatenate(self._costs) / self.unit, np.concatenate(self._bytes) / limit
        self.most = np.concatenate(self._most)
        self.integrality = np.r_[np.ones(self._sizes), np.zeros(self.costs.size - self._sizes)]
        self._row(np.zeros(held.size, np.int64), np.arange(held.size), held, 1, 1 - self._fixed_bytes / limit)
        self.matrix = self._as_matrix()
        self.most_sums = np.concatenate(self._right)
        self.least_sums = self.most_sums.copy()
        self.least_sums[-1] = -inf

    def _add(self, table: Table, is_memory: bool) -> None:
        target, other = (self._bytes, self._costs) if is_memory else (self._costs, self._bytes)
        if not table.views:
            # Seconds that nothing changes are those of a class of the first choice, whichever it is.
            if is_memory:
                self._fixed_bytes += float(table.values)
            else:
                self._costs[0][: self._starts[1]] += float(table.values)
            return
        values = np.where(np.isfinite(table.values), table.values, 0.0)
        possible = np.isfinite(table.values).astype(float)
        if len(table.views) == 1:
            span, seen = self._seen(table.views[0])
            target[0][span] += values[seen]
            self._most[0][span] *= possible[seen]
            return
        first = sum(part.size for part in self._costs)
        numbers = first + np.arange(values.size).reshape(values.shape)
        target.append(values.ravel())
        other.append(np.zeros(values.size))
        self._most.append(possible.ravel())
        for axis, view in enumerate(table.views):
            span, seen = self._seen(view)
            rows, columns = np.r_[np.indices(values.shape)[axis].ravel(), seen], np.r_[numbers.ravel(), span]
            self._row(rows, columns, np.r_[np.ones(values.size), -np.ones(span.size)], view.count, 0.0)

    def _seen(self, view: View) -> tuple[Array, Array]:
        """Return the variables of a choice, and which class of a view each of them is."""
        joint = self._views[view.choice]
        span = np.arange(self._starts[view.choice], self._starts[view.choice + 1])
        return span, view.classes[joint.first_options]

    def _row(self, rows: Array, columns: Array, values: Array, count: int, right: float) -> None:
        self._entries.append((rows + self._rows, columns, values))
        self._rows += count
        self._right.append(np.full(count, right))

    def _as_matrix(self) -> Any:
        from scipy.sparse import coo_array

        rows, columns, values = (np.concatenate(part) for part in zip(*self._entries, strict=True))
        return coo_array((values, (rows, columns)), shape=(self._rows, self.costs.size)).tocsr()

    def options(self, solution: Array) -> tuple[int, ...]:
        """Return the option of each choice in a solution."""
        found = []
        for choice, view in enumerate(self._views):
            best = int(solution[self._starts[choice] : self._starts[choice + 1]].argmax())
            found.append(int(view.first_options[best]))
        return tuple(found)


def _joint_views(tables: Sequence[Table], counts: Sequence[int]) -> list[View]:
    """Return of each choice the view that tells apart whatever a table does."""
    of_choices = [[View(choice, np.zeros(count, np.int64))] for choice, count in enumerate(counts)]
    for table in tables:
        for view in table.views:
            of_choices[view.choice].append(view)
    return [refined(views) for views in of_choices]
