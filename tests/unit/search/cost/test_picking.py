"""What picking rows of a table costs: what is moved, not a product of all rows and all indices."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.ops.indexing.gathering import GatherGrad
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.machine.machine import Machine

WIDTH = 8
MACHINE = Machine(operation_rate=1e9, memory_bandwidth=1e9, launch=0.0)


def specs(rows: int, indices: int) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    """A table, indices and the rows at them."""
    real, whole = np.dtype(np.float32), np.dtype(np.int32)
    return TensorSpec((rows, WIDTH), real), TensorSpec((indices,), whole), TensorSpec((indices, WIDTH), real)


@pytest.mark.parametrize(("rows", "indices"), [(1_000_000, 1000), (1000, 1_000_000)])
def test_the_gradient_of_a_table_takes_as_long_as_its_elements_and_the_rows_that_are_added(rows, indices) -> None:
    table, places, picked = specs(rows, indices)
    found = Prices(MACHINE).operator(GatherGrad(), [places, picked, table], [table])
    moved = (2 * table.byte_count + places.byte_count + picked.byte_count) / MACHINE.memory_bandwidth
    assert 0.25 * moved <= found <= moved


def test_more_indices_never_make_picking_cheaper() -> None:
    costs = []
    for indices in (10, 1000, 100_000):
        table, places, picked = specs(1000, indices)
        gather = ops.Gather().configured(axis=0)
        costs.append(Prices(MACHINE).operator(gather, [table, places], [picked]))
    assert costs == sorted(costs)
