"""What it costs to take values to where they are wanted, against sums made by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.graph import Graph, Node, Notes, Value
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.operator_settings import Segment
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.machine.machine import Link, Machine
from mpiparallel.search.problem.loose_sums import LooseSum, loose_sums, stays
from mpiparallel.search.problem.repeats import Repeats
from mpiparallel.search.problem.symbol import Symbol, made_symbol
from mpiparallel.search.problem.value_moves import Demand, ValueMoves, demands_of
from mpiparallel.search.problem.views import whole_view

RANKS = DeviceMatrix((4,))
SPEC = TensorSpec((4, 4), np.dtype(np.float32))
WHOLE, ROWS, COLUMNS = (Layout((4, 4), RANKS, dims).canonical for dims in (((), ()), ((0,), ()), ((), (0,))))
GATHERED, TURNED = 48.0, 12.0
"""Seconds in which a rank gets three quarters of 64 bytes, or three of the four numbers of a column."""


def prices() -> Prices:
    return Prices(Machine(ranks_per_host=4, inside=Link(0.0, 1.0), launch=0.0))


def symbol(choice: int, *layouts: Layout) -> Symbol[Layout]:
    """A layout for each option of a choice."""
    return made_symbol((whole_view(choice, len(layouts)),), np.arange(len(layouts)), layouts)


def told(moves: ValueMoves, own: Symbol[Layout], *demands: Demand) -> dict[tuple[int, ...], float]:
    """The seconds by the options of three choices of two each."""
    tables = moves.to_demands(Value(SPEC, "x"), own, demands)
    return {options: sum(float(table.at(options)) for table in tables) for options in product(range(2), repeat=3)}


OWN = symbol(0, ROWS, COLUMNS)
FIRST, SECOND = symbol(1, WHOLE, COLUMNS), symbol(2, WHOLE, ROWS)


def wanted(options: tuple[int, ...], together: bool) -> float:
    own, first, second = OWN.at(options), FIRST.at(options), SECOND.at(options)
    found = [0.0 if one is own else GATHERED if one is WHOLE else TURNED for one in (first, second)]
    return found[0] if together and first is second else sum(found)


@pytest.mark.parametrize(("kinds", "together"), [((None, None), True), (("one", "other"), False)])
def test_what_is_wanted_twice_in_one_place_is_moved_once_if_it_may_be_kept_meanwhile(
    kinds: tuple[object, object], together: bool
) -> None:
    moves = ValueMoves(prices(), Repeats(), 1 << 10)
    found = told(moves, OWN, *(Demand(layout, kind) for layout, kind in zip((FIRST, SECOND), kinds, strict=True)))
    assert found == {options: wanted(options, together) for options in found}
    assert moves.exact


@pytest.mark.parametrize(("most_cells", "is_exact"), [(8, True), (7, False)])
def test_where_a_table_has_too_many_cells_each_pays_a_part(most_cells: int, is_exact: bool) -> None:
    moves = ValueMoves(prices(), Repeats(), most_cells)
    found = told(moves, OWN, Demand(FIRST, None), Demand(SECOND, None))
    assert moves.exact is is_exact
    for options, seconds in found.items():
        alone = wanted(options, together=False)
        assert seconds == (wanted(options, together=True) if is_exact else pytest.approx(alone / 2))


@pytest.mark.parametrize(
    ("plans", "parts"),
    [
        # By this plan both want the whole, and pay for it alike.
        ([(0, 0, 0)], {"whole": (0.5, 0.5), "columns": 0.5}),
        # The first alone wants columns, and the second alone the whole.
        ([(0, 1, 0)], {"whole": (0.0, 1.0), "columns": 1.0}),
        # On average of both.
        ([(0, 0, 0), (0, 1, 0)], {"whole": (0.25, 0.75), "columns": 1.0}),
    ],
)
def test_by_plans_a_move_is_paid_by_those_that_want_it_there(
    plans: list[tuple[int, ...]], parts: dict[str, object]
) -> None:
    moves = ValueMoves(prices(), Repeats(), 1, plans)
    found = told(moves, OWN, Demand(FIRST, None), Demand(SECOND, None))
    first, second = parts["whole"]
    assert found[0, 0, 0] == pytest.approx(GATHERED * (first + second))
    assert found[0, 1, 0] == pytest.approx(TURNED * parts["columns"] + GATHERED * second)
    assert found[0, 0, 1] == pytest.approx(GATHERED * first)


def test_what_is_never_wanted_in_one_place_is_counted_apart_without_loss() -> None:
    moves = ValueMoves(prices(), Repeats(), 4)
    apart = symbol(2, ROWS, ROWS)
    tables = moves.to_demands(Value(SPEC, "x"), OWN, [Demand(FIRST, None), Demand(apart, None)])
    assert moves.exact
    assert [table.choices for table in tables] == [(0, 1), (0,)]
    # Where a value always is costs nothing, so it binds nobody.
    always = Symbol.always(WHOLE)
    tables = moves.to_demands(Value(SPEC, "x"), always, [Demand(FIRST, None), Demand(SECOND, None)])
    assert [table.choices for table in tables] == [(), ()]


class Shaped(Operator):
    """It reads only the shape of its second input."""

    unread = frozenset({1})


def test_values_are_wanted_where_nodes_read_them_and_outputs_whole_and_constants_nowhere() -> None:
    graph = Graph()
    x, y = (graph.add_input(name, SPEC) for name in "xy")
    weight = graph.add_parameter(Parameter(np.ones((4, 4), np.float32), "weight"), SPEC)
    constant = graph.add_constant(np.ones((4, 4), np.float32))
    rows, columns = Symbol.always(ROWS), symbol(0, ROWS, COLUMNS)
    again = Segment(recomputed=True, regathers=True)
    first = Node(Shaped(), "first", (x, y))
    nodes = {
        first: [rows, rows],
        Node(ops.Add(), "same", (x, constant)): [rows, rows],
        Node(ops.Add(), "other", (x, weight)): [columns, rows],
        Node(ops.Add(), "again", (weight, weight), notes=Notes(segment=again)): [rows, columns],
        Node(ops.Add(), "first time", (weight, x), notes=Notes(segment=Segment(regathers=True))): [columns, rows],
        Node(ops.Add(), "kept", (weight, x), notes=Notes(segment=Segment(recomputed=True))): [rows, rows],
    }
    gradient = Node(ops.Add(), "gradient", (weight, x), notes=Notes(origin=[*nodes][3]))
    nodes[gradient] = [columns, rows]
    graph.outputs = [y, constant, x]
    found = demands_of(graph, nodes, {y: rows, constant: rows})
    assert found.keys() == {x, y, weight}
    assert [(one.layout.items, one.kind) for one in found[x]] == [((ROWS,), None), ((ROWS, COLUMNS), None)]
    # What is computed once more gathers its weights once more; so does its gradient, together with it.
    assert [(one.layout.items, one.kind) for one in found[weight]] == [
        ((ROWS,), None),
        ((ROWS,), again),
        ((ROWS, COLUMNS), again),
        ((ROWS, COLUMNS), None),
    ]
    (whole,) = found[y]
    assert (whole.layout.items, whole.layout.choices, whole.kind) == ((WHOLE,), (), None)


def sums(*operands: tuple[str, ...]) -> tuple[list[Node], dict[str, Value]]:
    """Nodes that add up values, named by numbers; a number names what the node in that place makes."""
    values = {name: Value(SPEC, name) for name in "abcd"}
    nodes = []
    for place, names in enumerate(operands):
        node = Node(ops.Add(), str(place), tuple(values[name] for name in names))
        values[str(place)] = Value(SPEC, str(place), node)
        node.outputs = (values[str(place)],)
        nodes.append(node)
    return nodes, values


@pytest.mark.parametrize(
    ("operands", "elsewhere", "terms"),
    [
        ([("a", "b")], "", ["ab"]),
        ([("a", "b"), ("0", "c"), ("1", "d")], "", ["abcd"]),
        # What another takes, too, is a sum of its own.
        ([("a", "b"), ("0", "c"), ("1", "d")], "1", ["abc", "1d"]),
        # Only what comes first is gone on with.
        ([("a", "b"), ("c", "0")], "", ["ab", "c0"]),
        ([("a", "b"), ("c", "d"), ("0", "1")], "", ["cd", "ab1"]),
        ([("a", "b"), ("0", "c", "d")], "", ["ab", "0cd"]),
    ],
)
def test_sums_that_go_on_with_a_sum_are_one(operands: list[tuple[str, ...]], elsewhere: str, terms: list[str]) -> None:
    nodes, values = sums(*operands)
    found = loose_sums(nodes, {values[name]: [] for name in elsewhere})
    assert ["".join(value.name for value in one.terms) for one in found] == terms
    assert found[-1] == LooseSum(tuple(values[name] for name in terms[-1]), nodes[-1])
    assert found[-1].total is nodes[-1].outputs[0]


@pytest.mark.parametrize(
    ("wanted_at", "is_there"),
    [
        ([], True),
        ([OWN], True),
        ([OWN, symbol(0, ROWS, COLUMNS)], True),
        ([OWN, symbol(0, ROWS, ROWS)], False),
        ([symbol(1, ROWS, COLUMNS)], False),
        ([Symbol.always(ROWS)], False),
    ],
)
def test_a_value_stays_where_it_is_if_it_is_wanted_there_whatever_is_chosen(
    wanted_at: list[Symbol[Layout]], is_there: bool
) -> None:
    assert stays(OWN, [Demand(layout, None) for layout in wanted_at]) is is_there
