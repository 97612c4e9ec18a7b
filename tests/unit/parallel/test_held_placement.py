"""Placements beside inputs that are held already."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.held_placement import place_beside
from mpiparallel.parallel.operator_placement import Operands, ShardingRule

ROWS, VECTOR = (12, 12), (12,)
CUTS = ((3, 2), (2,))


def addition() -> Operands:
    """Return the sum of a matrix and a vector: columns are cut alike."""
    specs = [TensorSpec(shape, np.dtype(np.float32)) for shape in (ROWS, VECTOR)]
    return Operands("Add", ShardingRule(ops.Add().equation(*specs), (ROWS, VECTOR), (ROWS,)))


def on(shape: tuple[int, ...], *axes: tuple[int, ...]) -> Layout:
    """Return a layout over 6 ranks on axes of these extents."""
    return Layout(ROWS if len(axes) == 2 else VECTOR, DeviceMatrix(shape), axes)


@pytest.mark.parametrize(
    ("held", "cuts", "parts"),
    [
        # The vector has columns over the inner axis, so the rows go over the outer one; and the other way round.
        ({1: on((3, 2), (1,))}, CUTS, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]),
        ({1: on((2, 3), (0,))}, CUTS, [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]),
        # It is whole everywhere, and the order of the strategy is what counts.
        ({1: on((6,), ())}, ((6, 1), (1,)), [(rank, 0) for rank in range(6)]),
        ({1: on((6,), ())}, ((3, 1), (1,)), [(rank // 2, 0) for rank in range(6)]),
        # Parts that a strategy does not have.
        ({1: on((3, 2), (0,))}, CUTS, None),
        ({1: on((3, 2), (1,))}, ((6, 1), (1,)), None),
        # Axes of 2 and 3 are no axis of 3 and one that is left.
        ({1: on((2, 3), ())}, ((3, 1), (1,)), None),
        ({1: on((3, 2), ())}, ((3, 1), (1,)), [(rank // 2, 0) for rank in range(6)]),
        # What is held on axes of 2 and 3, and on axes of 3 and 2, is on no common axes.
        ({0: on((2, 3), (1,), (0,)), 1: on((3, 2), (1,))}, CUTS, None),
        ({0: on((3, 2), (0,), (1,)), 1: on((3, 2), (1,))}, CUTS, [(rank // 2, rank % 2) for rank in range(6)]),
        ({0: on((3, 2), (0,), (1,)), 1: on((2, 3), (0,))}, CUTS, None),
        ({1: on((2, 3), ()), 0: on((3, 2), (0,), ())}, ((1, 1), (1,)), None),
    ],
)
def test_what_is_held_stays_where_it_is_and_the_other_cuts_take_the_axes_that_are_left(
    held: dict[int, Layout], cuts: tuple[tuple[int, ...], ...], parts: list[tuple[int, int]] | None
) -> None:
    found = place_beside(addition(), cuts, held)
    assert (found is None) == (parts is None)
    if found is not None:
        assert found.strategy == cuts
        assert [found.inputs[0].parts(rank) for rank in range(6)] == parts
        assert all(found.inputs[place].canonical == layout.canonical for place, layout in held.items())


@pytest.mark.parametrize(("axis", "fits"), [(0, True), (1, False)])
@pytest.mark.parametrize("first", [0, 1])
def test_columns_that_two_inputs_hold_over_other_axes_are_of_no_placement(axis: int, fits: bool, first: int) -> None:
    matrix, vector = on((2, 2), (), (first,)), on((2, 2), ((first + axis) % 2,))
    found = place_beside(addition(), ((1, 2), (2,)), {0: matrix, 1: vector})
    assert (found is not None) == fits
