from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.errors import LayoutError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.layout.layout_json import layout_from_json, layout_to_json

TERMS = Layout((8,), DeviceMatrix((2, 2), 4), ((1,),), partial=(0,), reduction="max")


def carried(layout: Layout) -> Layout:
    return layout_from_json(json.loads(json.dumps(layout_to_json(layout))))


@given(data=st.data())
def test_a_layout_comes_back_as_it_was(layouts: Callable[..., st.SearchStrategy[Layout]], data: st.DataObject) -> None:
    layout = data.draw(layouts())
    if data.draw(st.booleans()):
        layout = layout.on_ranks(data.draw(st.permutations(range(10)))[: layout.devices.size])
    assert carried(layout) == layout


@pytest.mark.parametrize("layout", [TERMS, Layout((8,), DeviceMatrix((2,)), ((0,),)).with_bounds([((0, 5), (3, 8))])])
def test_terms_of_a_sum_and_parts_that_overlap_come_back(layout: Layout) -> None:
    assert carried(layout) == layout


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("reduction", "median", LayoutError),
        ("tensor_map", [[1.0]], TypeError),
        ("tensor_map", "1", TypeError),
        ("tensor_map", [[2]], LayoutError),
        ("first_rank", True, TypeError),
        ("bounds", [[[0, 8]]], LayoutError),
    ],
)
def test_what_is_no_layout_is_refused(key: str, value: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        layout_from_json({**layout_to_json(TERMS), key: value})


def test_a_layout_without_a_tensor_map_is_refused() -> None:
    entry = layout_to_json(TERMS)
    del entry["tensor_map"]
    with pytest.raises(KeyError):
        layout_from_json(entry)
