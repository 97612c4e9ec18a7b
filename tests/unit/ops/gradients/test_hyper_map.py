"""Functions over nested tuples, and those that are chosen by the kinds of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mpiparallel import Tensor, ops
from mpiparallel.errors import ConfigurationError, TraceError
from mpiparallel.ops.gradients.hyper_map import kind_of


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (Tensor([1.0]), "Tensor"),
        (True, "Bool"),
        (1, "Number"),
        (0.5, "Number"),
        ("a", "String"),
        ((), "Tuple"),
        ([], "List"),
        (None, "None"),
        (len, "Function"),
        ({}, "dict"),
    ],
)
def test_an_argument_has_a_kind(item: Any, kind: str) -> None:
    assert kind_of(item) == kind


def test_a_function_is_chosen_by_all_kinds_in_order() -> None:
    chosen = ops.MultitypeFuncGraph("chosen")
    for kinds in [("Number", "Tensor"), ("Tensor", "Number"), ("Bool", "Number"), ("Number",)]:
        chosen.register(*kinds)(lambda *items, kinds=kinds: kinds)
    assert chosen(1, Tensor([1.0])) == ("Number", "Tensor")
    assert chosen(Tensor([1.0]), 1) == ("Tensor", "Number")
    assert chosen(True, 1) == ("Bool", "Number")
    with pytest.raises(TraceError, match=r"chosen: no function is registered for \(String\); there are: Number"):
        chosen("a")
    with pytest.raises(TraceError, match=r"there are: none\. Add one with @empty.register"):
        ops.MultitypeFuncGraph("empty")(1)


def test_a_kind_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(ConfigurationError, match="named: kind 'Array' is not known; known are Tensor, Bool, Number, S"):
        ops.MultitypeFuncGraph("named").register("Tensor", "Array", "Number", "Table")


def test_reading_values_is_said_to_change_nothing_where_it_is_asked_for(remarks: Callable[[], list[str]]) -> None:
    ops.MultitypeFuncGraph("quiet")
    assert remarks() == []
    ops.MultitypeFuncGraph("loud", read_value=True)
    assert ["read_value=True has no effect" in line for line in remarks()] == [True]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_function_is_applied_to_the_leaves_in_the_order_that_is_told(reverse: bool) -> None:
    seen: list[int] = []

    def added(x: int, y: int) -> int:
        seen.append(x)
        return x + y

    given = ((1, [2, 3]), (10, (20, 30)))
    assert ops.HyperMap(added, reverse)(*given) == (11, (22, 33))
    assert seen == ([3, 2, 1] if reverse else [1, 2, 3])
    assert ops.HyperMap()(added, *given) == (11, (22, 33))
    assert ops.HyperMap(added)(1, 2) == 3


@pytest.mark.parametrize("others", [(1, 2, 3), (1,), 5])
def test_tuples_of_other_lengths_are_refused_with_their_lengths(others: Any) -> None:
    length = len(others) if isinstance(others, tuple) else None
    with pytest.raises(ConfigurationError, match=rf"arguments have \[2, {length}\] elements; give tuples that are"):
        ops.HyperMap(lambda x, y: x)((1, 2), others)
