"""How rows are shared out over the threads of a CUDA kernel, by the lengths of rows and sums."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.term import Term, operand, reduce


class Binding(NumpyBackend):
    """It writes down with how many blocks and threads a kernel is bound, and its numbers."""

    def __init__(self) -> None:
        self.bound: list[tuple[int, int, list[int]]] = []
        self.kernels: Any = SimpleNamespace(bind=self.bind)

    def bind(self, _name: str, _text: str, blocks: int, threads: int, arguments: tuple[Any, ...]) -> Any:
        numbers = [int(one) for one in arguments if isinstance(one, np.generic)]
        self.bound.append((blocks, threads, numbers))
        return lambda: None


def bound(make: Any, shape: tuple[int, ...]) -> list[tuple[int, int, list[int]]]:
    backend, x = Binding(), np.zeros(shape, np.float32)
    roots: list[Term] = make(operand(0, shape, x.dtype))
    expression_kernel(Runtime(backend), roots, [x], [np.zeros(one.shape, one.dtype) for one in roots])
    return backend.bound


@pytest.mark.parametrize(
    ("extent", "lanes"),
    [
        *((1, 32), (512, 32), (513, 128), (2048, 128), (2049, 256), (4096, 256), (4097, 512), (8192, 512)),
        *((8193, 1024), (40000, 1024)),
    ],
)
def test_a_warp_or_a_block_takes_a_row_of_which_each_thread_holds_16_elements_at_most(extent: int, lanes: int) -> None:
    rows = 9
    ((blocks, threads, numbers),) = bound(lambda x: [x - reduce("sum", x, [1]) / 3.0], (rows, extent))
    # Four warps share a block.
    assert (blocks, threads) == ((3, 128) if lanes == 32 else (9, lanes))
    assert numbers[-5:] == [9, 1, 1, 9, 1]


@pytest.mark.parametrize(
    ("rows", "columns", "share", "teams"),
    [(50, 41, 16, 4), (7, 41, 7, 1), (16, 41, 16, 1), (17, 41, 16, 2), (70000, 9, 18, 3889), (50, 601, 16, 4)],
)
def test_a_team_adds_up_16_rows_of_columns_at_least_and_more_where_4096_teams_would_not_do(
    rows: int, columns: int, share: int, teams: int
) -> None:
    first, totals = bound(lambda x: [reduce("sum", x, [0])], (rows, columns))
    # Each of 32 threads adds up eight columns at most.
    pieces = -(-columns // (32 * 8))
    assert first[:2] == (-(-teams * pieces // 4), 128)
    assert first[2][-5:] == [pieces, rows, share, teams * pieces, pieces]
    # The parts of 32 columns are added up side by side.
    assert totals[:2] == (-(-columns // 32) if columns >= 32 else columns, 256)
    assert totals[2][:2] == [teams, columns]


def test_sums_of_whole_rows_need_no_parts() -> None:
    ((blocks, threads, numbers),) = bound(lambda x: [reduce("sum", x, [1])], (9, 300))
    assert (blocks, threads, numbers[-5:]) == (3, 128, [9, 1, 1, 9, 1])
