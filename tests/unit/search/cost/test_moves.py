"""Prices of many moves at once against the steps that the planner makes of each."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.search.cost import moves
from mpiparallel.search.cost.moves import prices_of_moves
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
