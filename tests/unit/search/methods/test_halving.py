"""Operators are cut by one prime factor after the other, as it is worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.graph import Graph
from mpiparallel.search.methods.halving import cut_further, narrowed, prime_factors, rounds, uncut
from mpiparallel.search.problem.choices import Choice, options_of

PRODUCT = (("m", "k"), ("k", "n"))


@pytest.mark.parametrize(
    ("number", "factors"),
    [(1, []), (2, [2]), (3, [3]), (8, [2, 2, 2]), (60, [5, 3, 2, 2]), (49, [7, 7]), (22, [11, 2])],
)
def test_a_number_is_the_product_of_its_prime_factors_the_largest_first(number: int, factors: list[int]) -> None:
    assert prime_factors(number) == factors


OPTIONS = (
    ((1, 1), (1, 1)),
    ((2, 1), (1, 1)),
    ((1, 2), (2, 1)),
    ((1, 1), (1, 2)),
    ((2, 2), (2, 1)),
    ((4, 1), (1, 1)),
    ((2, 1), (1, 2)),
    ((3, 1), (1, 1)),
    ((1, 2), (2, 2)),
)


@pytest.mark.parametrize(
    ("strategy", "factor", "wanted"),
    [
        (((1, 1), (1, 1)), 2, [0, 1, 2, 3]),
        (((1, 1), (1, 1)), 3, [0, 7]),
        (((2, 1), (1, 1)), 2, [1, 4, 5, 6]),
        # The label of a sum is cut in both inputs at once.
        (((1, 2), (2, 1)), 2, [2, 4, 8]),
        (((4, 1), (1, 1)), 2, [5]),
    ],
)
def test_a_round_keeps_what_there_is_or_cuts_one_label_more(
    strategy: tuple[tuple[int, ...], ...], factor: int, wanted: list[int]
) -> None:
    assert cut_further(OPTIONS, PRODUCT, strategy, factor) == tuple(OPTIONS[place] for place in wanted)


def choices(ranks: int) -> tuple[Choice, Choice]:
    """A product that may be cut as it likes, and one that is fixed."""
    graph, spec = Graph(), TensorSpec((8, 8), np.dtype(np.float32))
    values = [graph.add_input(name, spec) for name in "xy"]
    free, fixed = (graph.add_node(ops.MatMul(), name, values, [spec]) for name in ("free", "fixed"))
    return Choice(free, options_of(free, ranks)), Choice(fixed, (((2, 1), (1, 2)),))


def test_there_is_a_round_for_each_factor_as_long_as_anything_is_free() -> None:
    free, fixed = choices(12)
    assert [*rounds((fixed, free), 12)] == [3, 2, 2]
    assert [*rounds((fixed,), 12)] == []
    assert [*rounds((free,), 1)] == []


def test_what_is_free_begins_uncut_and_is_cut_one_label_a_round_and_what_is_fixed_stays() -> None:
    free, fixed = choices(4)
    assert (uncut(free), uncut(fixed)) == (((1, 1), (1, 1)), ((2, 1), (1, 2)))
    of_free, of_fixed = narrowed((free, fixed), (uncut(free), uncut(fixed)), 2)
    assert set(of_free.options) == {((1, 1), (1, 1)), ((2, 1), (1, 1)), ((1, 2), (2, 1)), ((1, 1), (1, 2))}
    assert of_free.node is free.node
    assert of_fixed is fixed
