"""All strategies that an operator can have: their number, and that each of them can be placed."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest

from mpiparallel.graph.equation import Equation
from mpiparallel.parallel.legal_strategies import legal_strategies

PRODUCT = Equation.parse("mk,kn->mn")


@pytest.mark.parametrize(("devices", "count"), [(8, 20), (64, 84), (1024, 286)])
def test_a_product_can_be_cut_in_as_many_ways_as_factors_can_be_dealt_out_to_three_dims_and_copies(
    devices: int, count: int
) -> None:
    found = list(legal_strategies(PRODUCT, devices))
    assert len(found) == len(set(found)) == count
    for (rows, summed), (again, columns) in found:
        assert summed == again
        assert devices % prod((rows, summed, columns)) == 0


@pytest.mark.parametrize("devices", [1, 7, 12, 30])
def test_on_any_number_of_devices_they_are_what_trying_all_cuts_finds(devices: int) -> None:
    cuts = product(range(1, devices + 1), repeat=3)
    expected = {((m, k), (k, n)) for m, k, n in cuts if devices % (m * k * n) == 0}
    assert set(legal_strategies(PRODUCT, devices)) == expected


def test_dims_without_a_label_and_those_that_stay_whole_have_the_cut_1() -> None:
    rule = Equation((("a", None, "b", "c"),), (("a", "b", "c"),), whole=frozenset("c"))
    found = {strategy for (strategy,) in legal_strategies(rule, 4)}
    assert found == {(a, 1, b, 1) for a in (1, 2, 4) for b in (1, 2, 4) if a * b <= 4}
    assert list(legal_strategies(Equation(((None,),), ((None,),)), 4)) == [((1,),)]
