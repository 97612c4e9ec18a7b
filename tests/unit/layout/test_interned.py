"""Equal layouts are one object."""

from __future__ import annotations

import pickle
import weakref
from dataclasses import FrozenInstanceError

import pytest

from mpiparallel.errors import LayoutError
from mpiparallel.layout.box import Box
from mpiparallel.layout.cut import Cut
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout


def test_equal_layouts_are_one_object_however_they_are_made() -> None:
    layout = Layout((8, 6), DeviceMatrix((2, 2)), ((0,), ()))
    assert (
        Layout(global_shape=(8, 6), devices=DeviceMatrix((2, 2), ranks=(0, 1, 2, 3)), tensor_map=((0,), ())) is layout
    )
    assert Layout((8, 6), DeviceMatrix((2, 2)), ((0,), ()), partial=(1,)).reduced() is layout
    assert layout.on_ranks((0, 1, 2, 3)) is layout


def test_one_that_comes_from_elsewhere_is_equal() -> None:
    layout = Layout((8,), DeviceMatrix((4,)), ((0,),))
    other = pickle.loads(pickle.dumps(layout))
    assert (other, hash(other), other.box(3)) == (layout, hash(layout), layout.box(3))


def test_a_wrong_one_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(LayoutError):
            Layout((8,), DeviceMatrix((4,)), ((1,),))


def test_no_more_are_kept_than_the_latest() -> None:
    layouts = [weakref.ref(Layout((extent, 7919), DeviceMatrix((2,)), ((0,), ()))) for extent in range(1 << 15)]
    assert 1 < sum(layout() is not None for layout in layouts) <= 1 << 14


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Box((0,), (4,)), "stop"),
        (Cut(2), "parts"),
        (DeviceMatrix((4,)), "shape"),
        (Layout((8,), DeviceMatrix((4,)), ((0,),)), "partial"),
    ],
    ids=["Box", "Cut", "DeviceMatrix", "Layout"],
)
def test_what_many_share_cannot_be_changed(value: object, name: str) -> None:
    with pytest.raises(FrozenInstanceError, match=name):
        setattr(value, name, ())
