from __future__ import annotations

from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.checkpoint.files import array_file
from mpiparallel.checkpoint.files.portions import portions
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.box import Box


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    bounds = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=3))
    return Box(tuple(start for start, _ in bounds), tuple(start + extent for start, extent in bounds))


@given(boxes(), st.sampled_from([1, 4, 8]), st.integers(8, 200))
def test_portions_follow_one_another_and_are_the_whole_box(box: Box, itemsize: int, most: int) -> None:
    shape = tuple(stop + 1 for stop in box.stop)
    elements = np.arange(prod(shape)).reshape(shape)
    found = list(portions(box, itemsize, most))
    values = [elements[tuple(map(slice, part.start, part.stop))].reshape(-1) for part in found]
    expected = elements[tuple(map(slice, box.start, box.stop))].reshape(-1)
    assert np.concatenate([*values, np.empty(0, int)]).tolist() == expected.tolist()
    assert all(0 < part.size * itemsize <= most for part in found)


def test_a_tensor_of_any_size_is_cut_without_being_walked() -> None:
    box = Box.whole((2**40, 2**20))
    assert next(iter(portions(box, 4))).size * 4 <= 8 << 20
    assert list(portions(Box.whole((2**62, 0)), 4)) == []


@given(boxes(), st.sampled_from([8, 16, 64, 200, 8 << 20]))
def test_any_box_of_a_stored_array_is_what_numpy_cuts_out_of_it(box: Box, portion: int) -> None:
    shape = tuple(stop + 1 for stop in box.stop)
    elements = np.arange(prod(shape)).reshape(shape)

    def fill(name: str, first: int, target: Any) -> None:
        target[:] = elements.reshape(-1)[first : first + target.size]

    file: Any = SimpleNamespace(path="one", arrays=array_file.infos_of({"w": elements}), fill=fill)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(array_file, "_PORTION_BYTES", portion)
        found = array_file.read_box(file, "w", box)
    np.testing.assert_array_equal(found, elements[tuple(map(slice, box.start, box.stop))])


@pytest.mark.parametrize("box", [Box((0, 0), (3, 5)), Box((3, 0), (4, 4)), Box((2, 3), (4, 4))])
def test_a_box_that_is_not_in_a_stored_array_is_refused_before_anything_is_read(box: Box) -> None:
    def fill(name: str, first: int, target: Any) -> None:
        raise AssertionError("nothing of the box is there")

    file: Any = SimpleNamespace(path="one.h5", arrays=array_file.infos_of({"w": np.zeros((3, 4))}), fill=fill)
    with pytest.raises(CheckpointError, match=r'^one.h5: array "w" has shape \(3, 4\), so there is no Box\(start'):
        array_file.read_box(file, "w", box)
