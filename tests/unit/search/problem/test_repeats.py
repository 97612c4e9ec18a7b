"""What repeats is made once, and renumbered for other choices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel.search.problem.repeats import Repeats
from mpiparallel.search.problem.symbol import Symbol, made_symbol
from mpiparallel.search.problem.views import Table, View, cells, coarsened, joined_views, refined, whole_view

GRID = np.array([[1.0, 2.0], [3.0, 4.0]])


def table(*choices: int) -> Table:
    """One table over two choices of two options, whichever they are."""
    return Table(tuple(View(one, SIDE) for one in choices), GRID)


SIDE = np.array([0, 1])


class Asked:
    """Doubles tables, and counts how often it is asked to."""

    def __init__(self) -> None:
        self.times = 0

    def double(self, one: Table) -> Table:
        self.times += 1
        return Table(one.views, one.values * 2)


def test_what_differs_by_the_numbers_of_choices_alone_is_made_once() -> None:
    repeats, asked = Repeats(), Asked()
    found = [repeats.of("double", [one], lambda one=one: asked.double(one)) for one in (table(0, 1), table(4, 7))]
    assert asked.times == 1
    assert [one.choices for one in found] == [(0, 1), (4, 7)]
    assert found[1].values is found[0].values
    assert found[1].at([0, 0, 0, 0, 1, 0, 0, 0]) == 6.0
    again = repeats.of("double", [table(0, 1)], lambda: pytest.fail("it is known"))
    assert again is found[0]


@pytest.mark.parametrize(
    ("what", "parts"),
    [
        ("triple", lambda: [table(0, 1)]),
        ("double", lambda: [table(0, 1), table(0, 1)]),
        ("double", lambda: [Table(table(0, 1).views, GRID.copy())]),
        ("double", lambda: [Table((View(0, SIDE), View(1, SIDE.copy())), GRID)]),
    ],
    ids=["something-else", "more-parts", "other-values", "other-views"],
)
def test_what_differs_in_more_is_made_anew(what: str, parts: Any) -> None:
    repeats, asked = Repeats(), Asked()
    repeats.of("double", [table(0, 1)], lambda: asked.double(table(0, 1)))
    repeats.of(what, parts(), lambda: asked.double(table(0, 1)))
    assert asked.times == 2


def test_parts_of_other_choices_are_alike_where_they_lie_alike() -> None:
    """Two tables that share their second choice, and two that share none, are no repetition of each other."""
    repeats, asked = Repeats(), Asked()

    def made(*parts: Table) -> Table:
        return repeats.of("sum", parts, lambda: asked.double(parts[1]))

    assert made(table(0, 2), table(1, 2)).choices == (1, 2)
    assert made(table(3, 9), table(5, 9)).choices == (5, 9)
    assert asked.times == 1
    assert made(table(0, 3), table(1, 2)).choices == (1, 2)
    assert made(table(1, 2), table(0, 2)).choices == (0, 2)
    assert asked.times == 3


def test_lists_tuples_and_symbols_of_tables_are_renumbered_and_all_else_stays() -> None:
    repeats = Repeats()

    def make() -> tuple[Any, ...]:
        return [table(0, 1)], (made_symbol((View(0, SIDE),), SIDE, ["a", "b"]), None), np.arange(3)

    first, second = (repeats.of("all", [table(*choices)], make) for choices in ((0, 1), (5, 6)))
    (of_list,), (symbol, nothing), array = second
    assert (of_list.choices, symbol.choices, nothing) == ((5, 6), (5,), None)
    assert symbol.at([0] * 5 + [1]) == "b"
    assert array is first[2]
    assert isinstance(second[0], list)
    assert isinstance(second[1], tuple)


def test_what_depends_on_no_choice_is_told_by_its_value() -> None:
    repeats, asked = Repeats(), Asked()
    for value in (1.0, 1.0, 2.0):
        repeats.of("double", [Table((), np.array(value))], lambda value=value: asked.double(Table((), np.array(value))))
    assert asked.times == 2
    assert repeats.of("none", [], lambda: 5) == repeats.of("none", [], lambda: 6) == 5


def test_views_of_all_options_share_their_numbers() -> None:
    repeats = Repeats()
    one, other, longer = repeats.whole_view(0, 3), repeats.whole_view(4, 3), repeats.whole_view(0, 4)
    assert one.classes is other.classes
    assert ((one.choice, one.count), (other.choice, other.count), longer.count) == ((0, 3), (4, 3), 4)


def test_equal_arrays_and_items_of_what_was_made_are_one_object() -> None:
    repeats = Repeats()
    made = [
        repeats.of(number, [], lambda: (GRID.copy(), made_symbol((View(0, SIDE.copy()),), SIDE, ["a", "b"])))
        for number in range(2)
    ]
    assert made[0][0] is made[1][0]
    assert made[0][1].items is made[1][1].items
    assert made[0][1].table.values is made[1][1].table.values
    other = repeats.of("other", [], lambda: GRID.astype(np.float32))
    assert other.dtype == np.float32


def test_views_are_refined_to_what_any_of_them_tells_apart() -> None:
    one, two = View(3, np.array([0, 0, 1, 1])), View(3, np.array([0, 1, 0, 1]))
    assert refined([one]).classes.tolist() == [0, 0, 1, 1]
    assert refined([one, two]).classes.tolist() == [0, 1, 2, 3]
    assert refined([one, one, View(3, one.classes.copy())]).classes.tolist() == [0, 0, 1, 1]
    views = joined_views([Table((whole_view(1, 2), one), GRID), Table((two,), SIDE)])
    assert [(view.choice, view.count) for view in views] == [(1, 2), (3, 4)]
    assert cells(views) == 8
    assert one.first_options.tolist() == [0, 2]
    assert one.of(5).key != one.key == View(3, one.classes.copy()).key


def test_a_table_over_finer_views_repeats_its_values_and_over_none_of_its_choices_is_one_cell() -> None:
    seen = View(1, np.array([0, 0, 1]))
    found = Table((seen,), np.array([5.0, 7.0])).over([whole_view(0, 2), whole_view(1, 3)])
    assert found.shape == (1, 3)
    assert found.ravel().tolist() == [5.0, 5.0, 7.0]
    turned = Table((View(0, np.array([0, 1, 1])), seen), np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert turned.over([View(0, np.array([0, 1, 2])), seen]).tolist() == [[1.0, 2.0], [3.0, 4.0], [3.0, 4.0]]
    assert turned.at([2, 1]) == 3.0


def test_distinctions_without_a_difference_go_whichever_side_they_are_on() -> None:
    views = [whole_view(0, 3), whole_view(1, 2), whole_view(2, 2)]
    values = np.array([[[1, 2], [1, 2]], [[3, 4], [3, 4]], [[1, 2], [1, 2]]])
    found = coarsened(views, values)
    assert [(view.choice, view.classes.tolist()) for view in found.views] == [(0, [0, 1, 0]), (2, [0, 1])]
    assert found.values.tolist() == [[1, 2], [3, 4]]
    nothing = coarsened([whole_view(0, 2)], np.array([6, 6]))
    assert (nothing.views, int(nothing.values)) == ((), 6)
    assert Symbol.always("a").prices(lambda item: 2.5).at([]) == 2.5
