"""Prices of many moves at once against the steps that the planner makes of each."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.search.cost import moves
from mpiparallel.search.cost.moves import prices_of_moves, prices_of_pairs, prime_axes
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.machine.machine import Machine


def layouts(shape, ranks, draw, partial):
    """Layouts whose dims are cut by drawn axes in a drawn order, some of them into optimizer shards."""
    found = []
    for _ in range(40):
        sizes = {5: [5], 9: [3, 3]}.get(ranks, [2] * (ranks.bit_length() - 1))
        axes = draw.permutation(len(sizes)) if draw.random() < 0.3 else np.arange(len(sizes))
        maps = [[] for _ in shape]
        terms, shards = [], []
        for axis in axes.tolist():
            role = int(draw.integers(len(shape) + 2 + partial))
            if role < len(shape):
                maps[role].append(axis)
            elif role == len(shape):
                shards += [axis] if draw.random() < 0.5 else []
            elif role > len(shape) + 1:
                terms.append(axis)
        reduction = "max" if terms and draw.random() < 0.2 else "sum"
        matrix = DeviceMatrix(tuple(sizes))
        made = Layout(shape, matrix, tuple(map(tuple, maps)), tuple(sorted(terms)), reduction, tuple(sorted(shards)))
        found.append(made.canonical)
    return found


def windows(of):
    """The same layouts as windows read them: each part with an element more on both sides, where it has any."""
    found = []
    for layout in of:
        if not layout.optimizer_axes:
            wide = [
                tuple((max(start - 1, 0), min(stop + 1, extent)) for start, stop in layout.dim_bounds(dim))
                for dim, extent in enumerate(layout.global_shape)
            ]
            told = [bounds if cut > 1 else () for bounds, cut in zip(wide, layout.cuts, strict=True)]
            found.append(layout.reduced().with_bounds(told))
    return found


UNEVEN = [(8, (6, 16)), (5, (7,)), (16, (56, 7, 3)), (64, (32, 14, 14)), (9, (7, 10))]


@pytest.mark.parametrize(
    ("ranks", "shape"), [(8, (16, 64, 8)), (16, (64, 48)), (9, (27, 9)), (64, (64, 64, 64, 2)), (5, (5,)), *UNEVEN]
)
def test_prices_of_many_moves_are_those_of_the_planners_steps(ranks, shape) -> None:
    draw = np.random.default_rng(ranks)
    prices = Prices(Machine(ranks_per_host=4, cores=2, resuming=1e-3))
    sources, targets = (
        [*layouts(shape, ranks, draw, partial), Layout.replicated(shape, DeviceMatrix((ranks,)))] for partial in (1, 0)
    )
    targets += [*windows(targets), *sources[::4]]
    found = prices_of_moves(prices, sources, targets, 4)
    expected = [prices.moving(source, target, 4) for source, target in product(sources, targets)]
    np.testing.assert_allclose(found.ravel(), expected, rtol=1e-12)
    assert len(set(expected)) > 3 or ranks == 5


@pytest.mark.parametrize(
    ("devices", "is_there"),
    [
        (DeviceMatrix((2, 2)), True),
        (DeviceMatrix((4,)), True),
        (DeviceMatrix((2, 2), 4), False),
        (DeviceMatrix((2, 2), ranks=(3, 1, 2, 0)), False),
    ],
)
def test_a_layout_on_other_ranks_or_in_another_order_of_them_is_priced_alone(devices, is_there) -> None:
    layout = Layout((8, 12), devices, ((0,), ()))
    found = moves._on_primes(layout, DeviceMatrix((2, 2)))
    assert (found is not None) is is_there
    assert moves._priced_alone([found], [found]).tolist() == [[not is_there]]


@pytest.mark.parametrize(
    ("devices", "shape"),
    [
        (DeviceMatrix((1,)), ()),
        (DeviceMatrix((7,)), (7,)),
        (DeviceMatrix((9,)), (3, 3)),
        (DeviceMatrix((8, 4), 5), (2,) * 5),
        (DeviceMatrix((6,)), None),
        (DeviceMatrix((15,)), None),
        (DeviceMatrix((2, 2), ranks=(3, 1, 2, 0)), None),
    ],
)
def test_ranks_have_axes_of_one_prime_where_they_are_a_power_of_it_and_count_up(
    devices: DeviceMatrix, shape: tuple[int, ...] | None
) -> None:
    found = prime_axes(devices)
    assert (found and found.shape) == shape
    assert found is None or (found.first_rank, found.ranks) == (devices.first_rank, ())


@pytest.mark.parametrize(("ranks", "count"), [(6, 2), (6, 8), (4, 2), (4, 8)])
def test_some_pairs_are_priced_as_all_are_whether_there_are_few_layouts_or_many(ranks: int, count: int) -> None:
    """Six ranks are no power of a prime."""
    devices = DeviceMatrix((2, ranks // 2))
    dims = [((), ()), ((0,), ()), ((), (0,)), ((1,), ()), ((), (1,)), ((0,), (1,)), ((1,), (0,)), ((0, 1), ())]
    some, prices = [Layout((12, 12), devices, one) for one in dims[-count:]], Prices(Machine(ranks_per_host=2))
    table = [[prices.moving(source, target, 2) for target in some] for source in some]
    np.testing.assert_allclose(prices_of_moves(prices, some, some, 2), table, rtol=1e-12)
    pairs = np.array([0, 1, 1]), np.array([1, 0, 1])
    told = [table[0][1], table[1][0], 0.0]
    np.testing.assert_allclose(prices_of_pairs(prices, some, some, pairs, 2), told, rtol=1e-12)
    assert table[0][1] + table[1][0] > 0


@pytest.mark.parametrize("widened", [(0, 0), (1, -1), (1, 1), (-1, 0), (0, 2)], ids=str)
def test_windows_that_lie_inside_a_part_beside_it_or_beyond_it_are_priced_by_what_a_rank_lacks(
    widened: tuple[int, int],
) -> None:
    prices, targets = Prices(Machine(ranks_per_host=2)), []
    dims = [((), ()), ((0,), ()), ((1,), ()), ((0, 1), ()), ((1, 0), ()), ((0,), (1,)), ((), (0, 1)), ((1,), (0,))]
    sources = [Layout((10, 6), DeviceMatrix((2, 2)), one) for one in dims]
    for layout in sources:
        bounds = []
        for dim, extent in enumerate(layout.global_shape):
            moved = [(start + widened[0], stop + widened[1]) for start, stop in layout.dim_bounds(dim)]
            clipped = [(min(max(start, 0), extent), min(max(stop, 0), extent)) for start, stop in moved]
            told = tuple((start, max(start, stop)) for start, stop in clipped)
            bounds.append(told if layout.cuts[dim] > 1 else ())
        targets.append(layout.with_bounds(bounds))
    expected = [[prices.moving(source, target, 4) for target in targets] for source in sources]
    np.testing.assert_allclose(prices_of_moves(prices, sources, targets, 4), expected, rtol=1e-12)


def test_one_layout_and_many_are_priced_from_either_side() -> None:
    dims = [((), ()), ((0,), ()), ((), (0,)), ((1,), ()), ((), (1,)), ((0,), (1,)), ((1,), (0,)), ((0, 1), ())]
    many = [Layout((12, 12), DeviceMatrix((2, 2)), one) for one in dims] * 8
    prices, one = Prices(Machine(ranks_per_host=2)), many[1]
    there, back = (
        [prices.moving(*pair, 4) for pair in pairs] for pairs in (product([one], many), product(many, [one]))
    )
    np.testing.assert_allclose(prices_of_moves(prices, [one], many, 4), [there], rtol=1e-12)
    np.testing.assert_allclose(prices_of_moves(prices, many, [one], 4).ravel(), back, rtol=1e-12)
    some = np.zeros(3, int), np.array([0, 2, 63])
    found = prices_of_pairs(prices, [one], many, some, 4)
    np.testing.assert_allclose(found, [there[0], there[2], there[63]], rtol=1e-12)
