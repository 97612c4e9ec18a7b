"""Over which axes an out_strategy cuts an output: those that cut it already, then those of its terms, then replicas."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest

from mpiparallel.errors import StrategyError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.output_placement import place_outputs


def output(matrix: tuple[int, ...], *axes: tuple[int, ...], partial: tuple[int, ...] = ()) -> Layout:
    return Layout((24, 24), DeviceMatrix(matrix), axes, partial)


def rows_and_columns(layout: Layout, cuts: tuple[int, int]) -> list[tuple[int, ...]]:
    """Return the parts of each rank."""
    (placed,) = place_outputs("MatMul", [layout], (cuts,))
    assert placed.cuts == cuts
    assert not placed.partial
    return [placed.parts(rank) for rank in range(layout.devices.size)]


@pytest.mark.parametrize(
    ("layout", "cuts", "parts"),
    [
        # It stays as it is.
        (output((2, 2), (0,), (1,)), (2, 2), [(0, 0), (0, 1), (1, 0), (1, 1)]),
        # Halves of the rows stay halves of these halves; terms are scattered before replicas are cut.
        (output((2, 2), (0,), (), partial=(1,)), (4, 1), [(0, 0), (1, 0), (2, 0), (3, 0)]),
        (output((2, 2), (), (), partial=(1,)), (2, 1), [(0, 0), (1, 0)] * 2),
        (output((2, 2), (), (), partial=(0,)), (2, 1), [(0, 0)] * 2 + [(1, 0)] * 2),
        (output((2, 2), (), ()), (1, 2), [(0, 0)] * 2 + [(0, 1)] * 2),
        # Fewer cuts: the outer ones stay, and the rest is gathered.
        (output((4,), (0,), ()), (2, 1), [(0, 0)] * 2 + [(1, 0)] * 2),
        # What the rows do not need any more the columns take.
        (output((4,), (0,), ()), (2, 2), [(0, 0), (0, 1), (1, 0), (1, 1)]),
        (output((4,), (0,), ()), (1, 4), [(0, 0), (0, 1), (0, 2), (0, 3)]),
        # Six devices are an axis of 2 and one of 3: a cut into 3 passes over the first.
        (output((6,), (), ()), (3, 2), [(part, half) for half in range(2) for part in range(3)]),
        (output((6,), (0,), ()), (3, 1), [(0, 0), (1, 0), (2, 0)] * 2),
        (output((6,), (0,), ()), (2, 3), [(half, part) for half in range(2) for part in range(3)]),
    ],
)
def test_an_output_is_cut_over_the_axes_that_move_least(
    layout: Layout, cuts: tuple[int, int], parts: list[tuple[int, int]]
) -> None:
    assert rows_and_columns(layout, cuts) == parts


@pytest.mark.parametrize("devices", [1, 4, 6, 12])
def test_every_strategy_whose_product_divides_the_devices_can_be_had(devices: int) -> None:
    factors = [factor for factor in range(1, devices + 1) if devices % factor == 0]
    for cuts in product(factors, repeat=2):
        if devices % prod(cuts) == 0:
            parts = rows_and_columns(output((devices,), (0,), ()), cuts)
            # Each part is with as many ranks as any other.
            assert {parts.count(part) for part in parts} == {devices // prod(cuts)}
            assert len(set(parts)) == prod(cuts)


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (((1, 1), (1, 1)), "MatMul: out_strategy ((1, 1), (1, 1)) has 2 entries for 1 outputs; give each one"),
        (((1,),), "MatMul: output 0 has 2 dims, but its out_strategy (1,) has 1 cuts; give each dim one"),
        (
            ((2, 3),),
            "MatMul: output 0: out_strategy (2, 3) cuts into 6 parts, which does not divide the 4 devices; choose cuts "
            "whose product divides 4",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_numbers(strategy: tuple[tuple[int, ...], ...], message: str) -> None:
    with pytest.raises(StrategyError) as caught:
        place_outputs("MatMul", [output((4,), (0,), ())], strategy)
    assert str(caught.value) == message


def test_of_several_outputs_each_has_its_own() -> None:
    whole = output((4,), (), ())
    first, second = place_outputs("Split", [whole, whole], ((4, 1), (1, 2)))
    assert (first.cuts, second.cuts) == ((4, 1), (1, 2))
    with pytest.raises(StrategyError, match=r"^Split: output 1: out_strategy \(3, 1\) cuts into 3 parts"):
        place_outputs("Split", [whole, whole], ((4, 1), (3, 1)))
