"""Nested tensors are taken apart into a flat list, and put together again from another."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from mpiparallel import Tensor
from mpiparallel.compile.structure import Named, Options, ProgramConstant, flatten, rebuild, with_defaults
from mpiparallel.errors import TraceError

X, Y = np.ones(2), np.zeros(3)


@pytest.mark.parametrize(
    ("item", "structure", "count"),
    [
        (None, None, 0),
        (X, 0, 1),
        (np.float32(2), 0, 1),
        ((X, Y), (0, 1), 2),
        ([X, [Y, None]], (0, (1, None)), 2),
        ((), (), 0),
        ([], (), 0),
        # Lists of numbers are arrays, however deep; what has anything else is taken apart.
        ([1, 2.5, np.int32(3)], 0, 1),
        ([[1, 2], (3, 4)], 0, 1),
        ([1, X], (ProgramConstant(int, 1), 0), 1),
        ([[1, 2], [X]], (0, (1,)), 2),
        ([1, None], (ProgramConstant(int, 1), None), 0),
        ({"a": X, "b": (Y, 1)}, Named(("a", "b"), (0, (1, ProgramConstant(int, 1)))), 2),
        (Options(a=X), Named(("a",), (0,), are_options=True), 1),
        ("text", ProgramConstant(str, "text"), 0),
        (True, ProgramConstant(bool, True), 0),
        (2j, ProgramConstant(complex, 2j), 0),
        (np.float32, ProgramConstant(type, np.float32), 0),
        (np.dtype("f4"), ProgramConstant(type(np.dtype("f4")), np.dtype("f4")), 0),
    ],
    ids=str,
)
def test_tensors_are_leaves_and_numbers_texts_and_types_are_part_of_the_program(
    item: Any, structure: Any, count: int
) -> None:
    leaves: list[Any] = []
    assert flatten(item, leaves) == structure
    assert len(leaves) == count


@pytest.mark.parametrize(
    "item", [None, ("a", None), {"x": "a", "y": ("b", 1, True)}, Options(z="a"), ("a", {"k": Options(z="b")}, 1.5)]
)
def test_what_was_taken_apart_is_put_together_of_other_leaves(item: Any) -> None:
    def with_arrays(one: Any) -> Any:
        if isinstance(one, str):
            return Tensor(1.0)
        if isinstance(one, tuple):
            return tuple(map(with_arrays, one))
        return type(one)({key: with_arrays(value) for key, value in one.items()}) if isinstance(one, dict) else one

    leaves: list[Any] = []
    found = rebuild(flatten(with_arrays(item), leaves), "abc")
    assert found == item
    assert type(found) is type(item)
    if isinstance(item, tuple) and isinstance(item[1], dict):
        assert type(found[1]["k"]) is Options


def test_numbers_that_are_equal_but_of_other_types_are_other_programs() -> None:
    constants = {ProgramConstant.of(value) for value in (1, 1.0, True)}
    assert len(constants) == 3
    assert ProgramConstant.of(1) == ProgramConstant.of(1)


def test_what_is_no_tensor_is_refused_by_its_type() -> None:
    for item in (object(), (X, object()), {"a": object()}):
        with pytest.raises(TraceError, match=r"^a object stands where tensors, or tuples of them, are expected$"):
            flatten(item, [])


def function(x: Any, y: int = 2, *rest: Any, z: int = 3, **others: Any) -> None:
    """Take arguments of every kind."""


@pytest.mark.parametrize(
    ("inputs", "options", "wanted"),
    [
        ((1,), {}, (1, 2, {"z": 3})),
        ((), {"x": 1, "z": 5}, (1, 2, {"z": 5})),
        ((1, 4, 6), {"w": 7}, (1, 4, 6, {"z": 3, "w": 7})),
    ],
)
def test_arguments_come_by_place_and_those_without_one_by_name(
    inputs: tuple[Any, ...], options: dict[str, Any], wanted: tuple[Any, ...]
) -> None:
    found = with_defaults("f", inspect.signature(function), inputs, options)
    assert found == wanted
    assert type(found[-1]) is Options


def test_arguments_that_all_have_places_come_without_options_and_wrong_ones_are_refused() -> None:
    signature = inspect.signature(lambda x, y=2: None)
    assert with_defaults("f", signature, (1,), {}) == (1, 2)
    with pytest.raises(TraceError, match=r"^cell: missing a required argument: 'x'$"):
        with_defaults("cell", signature, (), {})
