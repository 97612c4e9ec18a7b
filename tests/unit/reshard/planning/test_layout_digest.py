"""A digest tells which tensor moves how, in whatever order tensors are given."""

from __future__ import annotations

from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.planning.layout_digest import plan_digest

ROWS = Layout((4, 6), DeviceMatrix((2,)), ((0,), ()))
COLUMNS = Layout((4, 6), DeviceMatrix((2,)), ((), (0,)))


def test_tensors_that_move_alike_are_told_from_those_that_do_not() -> None:
    forth, back = (ROWS, COLUMNS), (COLUMNS, ROWS)
    cases = [
        {"a": forth, "b": forth},
        {"a": forth, "b": back},
        {"a": back, "b": forth},
        {"a": back, "b": back},
        {"a": forth, "c": forth},
        {"a": forth},
        {"a": forth, "b": forth, "c": forth},
        {"a": forth, "b": back, "c": back},
        {"a": forth, "b": back, "c": forth},
        {},
    ]
    assert len({plan_digest(case) for case in cases}) == len(cases)
    assert {len(plan_digest(case)) for case in cases} == {32}


def test_the_order_of_tensors_does_not_count() -> None:
    layouts = {"a": (ROWS, COLUMNS), "b": (COLUMNS, ROWS), "c": (ROWS, ROWS)}
    assert plan_digest(dict(reversed(layouts.items()))) == plan_digest(layouts)
