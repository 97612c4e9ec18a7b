"""How rows are shared out over the threads of a CUDA kernel; it depends on shapes alone, so bits repeat on any card."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from mpiparallel.dataclass import dataclass
from mpiparallel.graph.expression.cuda.operand import CudaOperand, vector_width
from mpiparallel.graph.expression.term import Term
from mpiparallel.graph.expression.term_arrays import TermArrays

WARP: Final = 32
_TEAMS_A_BLOCK: Final = 4
_HELD: Final = 16
"""Elements of a row that a thread holds in registers at most."""

_HELD_OF_COLUMNS: Final = 8
"""Fewer where it adds up columns in float64."""

_LANES: Final = (128, 256, 512, 1024)
_WARPS_WANTED: Final = 4096
"""Warps that fill the largest cards, twice; more would only make more parts of sums."""

_LEAST_SHARE: Final = 16
"""Rows of a team at least; with fewer the parts of a sum would be nearly as much to write as there is to read."""

_LONGEST_PIECE: Final = 4096
_MANY_ROWS: Final = 1024


@dataclass(frozen=True)
class RowPlan:
    """Teams of ``lanes`` threads, a warp or a block, each with a place in the ``kept`` dims and a share of ``reduced``.

    A thread takes ``width`` neighbours at each of ``turns``; 0 turns are as many as the row needs. A row may be cut
    into ``pieces``, which ``cuts_reduced`` counts as a dim that is summed over. The sum of a share is a part: there are
    ``chunks`` parts, each of at most ``share`` rows.
    """

    kept: tuple[int, ...]
    reduced: tuple[int, ...]
    lanes: int
    width: int
    turns: int
    pieces: int
    cuts_reduced: bool
    kept_count: int
    reduced_count: int
    chunks: int
    share: int

    @property
    def teams(self) -> int:
        """How many teams there are."""
        return self.kept_count * self.chunks

    @property
    def teams_a_block(self) -> int:
        """How many teams a block has."""
        return _TEAMS_A_BLOCK if self.lanes == WARP else 1

    @property
    def held(self) -> int:
        """How many elements of a row a thread holds; 0 where it holds none."""
        return self.turns * self.width

    @property
    def piece(self) -> int:
        """Elements of a piece."""
        return self.lanes * self.held


def row_plan(bound: TermArrays, operands: Sequence[CudaOperand], *, has_inner: bool) -> RowPlan:
    """Return the plan of a kernel with rows."""
    outer = len(bound.shape) - bound.row_rank
    extent = prod(bound.shape[outer:])
    reduced = tuple(sorted({dim for term in bound.totals for dim in reduced_dims(bound, term, outer)}))
    kept = tuple(dim for dim in range(outer) if dim not in reduced)
    rows = prod(bound.shape[:outer])
    in_columns = any(is_column(bound, term) for term in bound.totals)
    in_rows = any(not is_column(bound, term) for term in bound.totals)
    can_cut = not has_inner and bound.row_rank == 1 and not (in_columns and in_rows)
    lanes = WARP if can_cut and in_columns else _lanes(extent)
    most = _HELD_OF_COLUMNS if in_columns else _HELD
    width = vector_width(operands, bound.shape[-1], WARP)
    turns = -(-extent // (lanes * width))
    cuts = can_cut and (in_columns or (extent > _LONGEST_PIECE and rows < _MANY_ROWS))
    if cuts:
        turns = min(turns, max(most // width, 1))
    elif turns * width > _HELD:
        turns = 0
    pieces = -(-extent // (lanes * width * turns)) if cuts else 1
    kept_count = prod(bound.shape[dim] for dim in kept) * (pieces if in_columns else 1)
    reduced_count = prod(bound.shape[dim] for dim in reduced) * (1 if in_columns else pieces)
    wanted = max(_WARPS_WANTED * WARP // lanes // kept_count, 1)
    share = max(-(-reduced_count // wanted), min(_LEAST_SHARE, reduced_count))
    chunks = -(-reduced_count // share)
    return RowPlan(kept, reduced, lanes, width, turns, pieces, not in_columns, kept_count, reduced_count, chunks, share)


def reduced_dims(bound: TermArrays, total: Term, outer: int) -> list[int]:
    """Return the dims before rows that a total sums over."""
    shape = bound.totals[total].shape
    return [dim for dim in range(outer) if shape[dim] != bound.shape[dim]]


def is_column(bound: TermArrays, total: Term) -> bool:
    """Return whether a total has a sum for each place in a row."""
    outer = len(bound.shape) - bound.row_rank
    return not bound.is_row(total.operands[0]) and tuple(bound.totals[total].shape[outer:]) == bound.shape[outer:]


def _lanes(extent: int) -> int:
    if extent <= WARP * _HELD:
        return WARP
    return next((lanes for lanes in _LANES if extent <= lanes * _HELD), _LANES[-1])
