"""Arguments with one possible value, and those that change nothing: which values count as the default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel.compatibility.arguments import no_effect, only
from mpiparallel.errors import ConfigurationError

NAN = float("nan")


@pytest.mark.parametrize(
    ("value", "possible"), [(1, 1), ("a", "".join(["", "a"])), (None, None), ([2], [2]), (NAN, NAN), (2.0, 2.0)]
)
def test_the_possible_value_is_taken_whichever_object_it_is(value: Any, possible: Any) -> None:
    only("f", "x", value, possible)


@pytest.mark.parametrize(
    ("value", "possible"), [(2, 1), (0, 1), (True, 1), (1, True), (1.0, 1), ("b", "a"), (None, False), ((2,), [2])]
)
def test_another_value_or_one_of_another_type_is_refused(value: Any, possible: Any) -> None:
    with pytest.raises(ConfigurationError) as raised:
        only("f", "x", value, possible)
    assert str(raised.value) == f"f: x={value!r} is not supported; use {possible!r}"
    with pytest.raises(ConfigurationError) as raised:
        only("f", "x", value, possible, "do that")
    assert str(raised.value) == f"f: x={value!r} is not supported; use {possible!r}; do that"


@pytest.mark.parametrize(
    ("value", "default", "said"),
    [
        (2, 1, True),
        (0, 1, True),
        (1.0, 1, True),
        (1, None, True),
        (None, 1, True),
        (1, 1, False),
        (1000, int("1000"), False),
        (NAN, NAN, False),
        ("a", "".join(["", "a"]), False),
        (False, 0, True),
    ],
)
def test_what_changes_nothing_is_said_of_other_values_than_the_default(
    value: Any, default: Any, said: bool, remarks: Callable[[], list[str]]
) -> None:
    no_effect("f", "x", value, "why", default=default)
    assert remarks() == ([f"f: x={value!r} has no effect here: why"] if said else [])


def test_an_array_is_no_default_and_none_is_one_unless_told(remarks: Callable[[], list[str]]) -> None:
    no_effect("f", "x", None, "why")
    assert remarks() == []
    no_effect("f", "x", np.zeros(2), "why")
    assert len(remarks()) == 1
