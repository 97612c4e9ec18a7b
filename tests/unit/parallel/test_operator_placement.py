"""Where inputs and outputs of one operator are: by a strategy, by the batch, and by where the inputs are already."""

from __future__ import annotations

from typing import Any

import pytest

from mpiparallel.errors import StrategyError
from mpiparallel.graph.equation import Equation
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.operator_placement import (
    Operands,
    ShardingRule,
    axis_extents,
    axis_order,
    on_common_devices,
    place_by_batch,
    place_by_inputs,
    place_by_strategy,
)

EIGHT = DeviceMatrix((8,))
UNCUT = ((1, 1), (1, 1))
PRODUCT = Operands("MatMul", ShardingRule(Equation.parse("mk,kn->mn"), ((16, 12), (12, 8)), ((16, 8),)))


def of(text: str, *shapes: tuple[int, ...], **settings: Any) -> Operands:
    """Return an operator of an equation; the last of the shapes is that of its output."""
    return Operands("Operator", ShardingRule(Equation.parse(text, **settings), shapes[:-1], shapes[-1:]))


def on(shape: tuple[int, ...], matrix: tuple[int, ...], *axes: tuple[int, ...], **settings: Any) -> Layout:
    return Layout(shape, DeviceMatrix(matrix), axes, **settings)


def test_a_strategy_makes_an_axis_of_each_cut_and_one_of_what_is_left() -> None:
    placed = place_by_strategy(PRODUCT, ((2, 1), (1, 2)), EIGHT)
    assert placed.inputs == (on((16, 12), (2, 2, 2), (0,), ()), on((12, 8), (2, 2, 2), (), (1,)))
    assert placed.outputs == (on((16, 8), (2, 2, 2), (0,), (1,)),)
    assert placed.strategy == ((2, 1), (1, 2))
    summed = place_by_strategy(PRODUCT, ((1, 4), (4, 2)), EIGHT)
    assert summed.outputs == (on((16, 8), (4, 2), (), (1,), partial=(0,)),)


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (((2, 1),), "strategy ((2, 1),) has 1 entries for 2 inputs; give each input one, for example ((1, 1), (1, 1))"),
        (
            ((1, 1),) * 3,
            f"strategy {((1, 1),) * 3} has 3 entries for 2 inputs; give each input one, for example {UNCUT}",
        ),
        (((2, 1), (1,)), "input 1 has 2 dims, but its strategy (1,) has 1 cuts; give each dim one"),
        (
            ((2, 2), (4, 1)),
            "dim 1 of input 0 is cut 2 ways and dim 0 of input 1 4 ways, but they go together and must be cut alike",
        ),
        (
            ((4, 1), (1, 4)),
            "strategy ((4, 1), (1, 4)) cuts into 16 parts, but there are 8 devices; make the product of the cuts at "
            "most 8",
        ),
        (
            ((3, 1), (1, 2)),
            "strategy ((3, 1), (1, 2)) cuts into 6 parts, which does not divide the 8 devices; choose cuts whose "
            "product divides 8",
        ),
    ],
)
def test_a_strategy_that_does_not_fit_is_refused_with_its_numbers(strategy: Any, message: str) -> None:
    with pytest.raises(StrategyError) as caught:
        place_by_strategy(PRODUCT, strategy, EIGHT)
    assert str(caught.value) == f"MatMul: {message}"


def test_a_dim_that_stays_whole_is_known_by_its_place() -> None:
    rows = of("mk->m", (8, 8), (8,), whole="k")
    with pytest.raises(StrategyError) as caught:
        place_by_strategy(rows, ((2, 4),), EIGHT)
    assert str(caught.value) == "Operator: dim 1 of input 0 must stay whole, but is cut 4 ways; give it cut 1"
    grouped = Operands("Split", ShardingRule(Equation((("a",),), (("a",),), divisors={"a": 6}), ((12,),), ((12,),)))
    assert place_by_strategy(grouped, ((2,),), EIGHT).inputs[0].cuts == (2,)
    with pytest.raises(StrategyError, match=r"dim 0 of input 0 can be cut only into a number .* divides 6, not 4$"):
        place_by_strategy(grouped, ((4,),), EIGHT)


def test_a_dim_that_is_split_by_hand_has_these_parts_or_is_whole() -> None:
    sizes = {(0, "a"): (1, 3, 4), (1, "a"): (2, 6, 8)}
    rule = ShardingRule(Equation((("a", "b"),), (("a", "b"),), sizes=sizes), ((8, 6),), ((16, 6),))
    by_hand, three = Operands("Gather", rule), DeviceMatrix((3,))
    placed = place_by_strategy(by_hand, ((3, 1),), three)
    assert placed.inputs[0].bounds == (((0, 1), (1, 4), (4, 8)), ())
    assert placed.outputs[0].bounds == (((0, 2), (2, 8), (8, 16)), ())
    for cuts in ((1, 3), (1, 1)):
        other = place_by_strategy(by_hand, (cuts,), three)
        assert (other.inputs[0].cuts, other.inputs[0].bounds, other.outputs[0].bounds) == (cuts, (), ())
    for cut in (2, 6):
        with pytest.raises(StrategyError) as caught:
            place_by_strategy(by_hand, ((cut, 1),), DeviceMatrix((6,)))
        assert str(caught.value) == (
            f"Gather: dim 0 of input 0 is split by hand into 3 parts, but is cut {cut} ways; give it cut 3 or 1"
        )


def test_dims_behind_one_that_is_never_cut_are_cut_as_the_strategy_says() -> None:
    rule = ShardingRule(Equation(((None, "a", "b"),), (("a", None, "b"),)), ((1, 8, 8),), ((8, 1, 8),))
    placed = place_by_strategy(Operands("Moved", rule), ((1, 4, 2),), EIGHT)
    assert (placed.inputs[0].cuts, placed.outputs[0].cuts) == ((1, 4, 2), (4, 1, 2))


@pytest.mark.parametrize(
    ("rows", "whole", "batch", "cuts"),
    [(16, "", "m", 8), (12, "", "m", 4), (7, "", "m", 1), (0, "", "m", 8), (16, "m", "m", 1), (16, "", "k", 8)],
)
def test_without_a_strategy_the_batch_is_cut_into_as_many_parts_as_divide_it_and_the_devices(
    rows: int, whole: str, batch: str, cuts: int
) -> None:
    placed = place_by_batch(of("mk->mk", (rows, 24), (rows, 24), whole=whole, batch=batch), EIGHT)
    wanted = (cuts, 1) if batch == "m" else (1, cuts)
    assert placed.inputs[0].cuts == placed.outputs[0].cuts == wanted
    assert placed.strategy == (wanted,)


def test_an_operator_without_a_batch_is_computed_whole_by_all() -> None:
    rule = ShardingRule(Equation(((None,),), ((None,),)), ((5,),), ((5,),))
    placed = place_by_batch(Operands("Whole", rule), EIGHT)
    assert placed.inputs[0] == Layout.replicated((5,), EIGHT.reshaped((8,)))
    assert placed.strategy == ((1,),)


def test_repeated_calculation_is_the_last_axis_or_the_first_where_the_rule_says_so() -> None:
    plain = Equation.parse("mk,kn->mn")
    assert axis_order(plain, {"m": 2, "n": 1, "k": 3}) == ["m", "k", None]
    first = Equation((("a", "b"),), (("a",),), repeats_first=frozenset("a"))
    assert axis_order(first, {"a": 2, "b": 2}) == [None, "a", "b"]
    assert axis_order(first, {"b": 2}) == ["b", None]
    assert axis_extents(["m", "k", None], {"m": 2, "k": 3}, 24) == (2, 3, 4)
    assert axis_extents([None, "a"], {"a": 2}, 2) == (1, 2)


ROWS = on((16, 12), (2, 4), (0,), ())
COLUMNS = on((12, 8), (2, 4), (), (1,))
INNER = on((12, 8), (2, 4), (0,), ())


@pytest.mark.parametrize(
    ("given", "first", "wanted", "cuts"),
    [
        # Each label takes the cut of the first input that has one, unless its axes are taken.
        ((ROWS, COLUMNS), (), (), ((2, 1), (1, 4), (2, 4))),
        ((ROWS, INNER), (), (), ((2, 1), (1, 1), (2, 1))),
        ((ROWS, INNER), (1,), (), ((1, 2), (2, 1), (1, 1))),
        ((ROWS, on((12, 8), (2, 4), (1,), ())), (), (), ((2, 4), (4, 1), (2, 1))),
        # Both cut what they sum, over other axes.
        ((on((16, 12), (2, 4), (), (1,)), INNER), (), (), ((1, 4), (4, 1), (1, 1))),
        ((on((16, 12), (2, 4), (), (1,)), INNER), (1,), (), ((1, 2), (2, 1), (1, 1))),
        # What is left out can be anywhere; the output says where it is wanted.
        ((ROWS, None), (), (), ((2, 1), (1, 1), (2, 1))),
        ((ROWS, None), (), (on((16, 8), (2, 4), (), (1,)),), ((2, 1), (1, 4), (2, 4))),
        ((ROWS, None), (), (on((16, 8), (2, 4), (1,), (0,)),), ((2, 1), (1, 1), (2, 1))),
        # Ranks on other axes: those that do not fit the first ones' are gathered.
        ((on((16, 12), (8,), (0,), ()), COLUMNS), (), (), ((8, 1), (1, 1), (8, 1))),
        ((on((16, 12), (4, 2), (), ()), COLUMNS), (), (), ((1, 1), (1, 4), (1, 4))),
    ],
)
def test_inputs_stay_where_they_are_as_far_as_the_rule_allows(
    given: Any, first: Any, wanted: Any, cuts: tuple[tuple[int, ...], ...]
) -> None:
    placed = place_by_inputs(PRODUCT, given, first, wanted)
    assert tuple(layout.cuts for layout in (*placed.inputs, *placed.outputs)) == cuts
    assert placed.strategy is None
    inner = placed.inputs[0].cuts[1]
    assert bool(placed.outputs[0].partial) == (inner > 1)


def test_a_label_that_may_not_be_cut_so_is_gathered() -> None:
    rows = of("mk->m", (16, 12), (16,), whole="k")
    assert place_by_inputs(rows, [on((16, 12), (2, 4), (0,), (1,))]).inputs[0].cuts == (2, 1)
    partial = on((16, 12), (2, 4), (0,), (), partial=(1,))
    assert place_by_inputs(rows, [partial]).inputs[0] == on((16, 12), (2, 4), (0,), ())


def test_layouts_come_on_one_device_matrix_and_what_does_not_fit_the_first_ones_is_whole() -> None:
    matrix, (one, two, three) = on_common_devices(
        [on((12,), (2, 6), (0,)), on((12,), (4, 3), (0,)), on((12,), (3, 4), (0,))]
    )
    assert matrix.shape == (2, 2, 3)
    assert (one.tensor_map, two.tensor_map) == (((0,),), ((0, 1),))
    assert three == Layout.replicated((12,), matrix)
    elsewhere = Layout((12,), DeviceMatrix((12,), 12), ((0,),))
    assert on_common_devices([on((12,), (2, 6), (0,)), elsewhere])[1][1].cuts == (1,)
