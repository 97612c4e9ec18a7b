"""A state in files is read from whoever has it, and where nobody has it each of those who should is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpiparallel.checkpoint.files.array_file import infos_of
from mpiparallel.checkpoint.formats.registry import write_file
from mpiparallel.checkpoint.stored_state import StoredState, StoredTensor
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout

WHOLE = np.arange(48.0).reshape(6, 8)
CUT = Layout((6, 8), DeviceMatrix((2, 2)), ((0,), (1,)))


def state_of(folder: Path, layout: Layout, arrays: dict[int, NDArray[Any]]) -> StoredState:
    """Return the state in the files of ranks, each of which has an array "w"."""
    files = {rank: folder / f"{rank}.npz" for rank in arrays}
    for rank, array in arrays.items():
        write_file(files[rank], infos_of({"w": array}), [("w", array)], {})
    return StoredState.of_files(files, {"w": StoredTensor(layout, np.dtype(np.float64))})


def part(layout: Layout, rank: int) -> NDArray[Any]:
    box = layout.box(rank)
    return WHOLE[tuple(map(slice, box.start, box.stop))]


@pytest.mark.parametrize("box", [Box((0, 0), (6, 8)), Box((1, 2), (5, 7)), Box((2, 3), (3, 4)), Box((3, 0), (3, 8))])
def test_a_box_comes_from_all_files_that_it_lies_in(box: Box, tmp_path: Path) -> None:
    with state_of(tmp_path, CUT, {rank: part(CUT, rank) for rank in range(4)}) as state:
        found = state.read_box("w", box)
        target = np.zeros((box.stop[1] - box.start[1], box.stop[0] - box.start[0]))
        state.fill_box("w", box, target.T)
    expected = WHOLE[tuple(map(slice, box.start, box.stop))]
    np.testing.assert_array_equal(found, expected, strict=True)
    np.testing.assert_array_equal(target.T, expected)
    assert state.replaced == {}


@pytest.mark.parametrize(
    ("array", "shown"),
    [
        (np.zeros((3, 3)), "float64 of shape (3, 3)"),
        (np.zeros((3, 4), np.float32), "float32 of shape (3, 4)"),
        (np.zeros(()), "float64 of shape ()"),
    ],
)
def test_a_file_of_another_shape_or_dtype_is_of_no_use(array: NDArray[Any], shown: str, tmp_path: Path) -> None:
    arrays = {rank: part(CUT, rank) for rank in range(4)} | {2: array}
    with state_of(tmp_path, CUT, arrays) as state, pytest.raises(CheckpointError) as caught:
        state.read_box("w", Box.whole((6, 8)))
    assert str(caught.value) == (
        'tensor "w" (6, 8): the slice (3, 0) to (6, 4) is lost, as no rank that held it has a sound file; restore one '
        f'of rank 2, or load an older checkpoint: rank 2: {tmp_path}/2.npz: array "w" should be float64 of shape '
        f"(3, 4), the file has {shown}; it is of another step, rank or strategy"
    )


def test_up_to_eight_of_those_who_should_have_a_slice_are_told_with_why_not(tmp_path: Path) -> None:
    layout = Layout((2,), DeviceMatrix((10,)), ((),))
    with state_of(tmp_path, layout, {3: np.zeros(3)}) as state, pytest.raises(CheckpointError) as caught:
        state.read_box("w", Box.whole((2,)))
    reasons = [f"rank {rank}: there is no file of it" for rank in range(8)]
    reasons[3] = (
        f'rank 3: {tmp_path}/3.npz: array "w" should be float64 of shape (2,), the file has float64 of shape (3,); it '
        "is of another step, rank or strategy"
    )
    assert str(caught.value) == (
        'tensor "w" (2,): the slice (0,) to (2,) is lost, as no rank that held it has a sound file; restore one of '
        f"ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, or load an older checkpoint: {'; '.join(reasons)}"
    )


def test_a_file_without_the_array_is_passed_over_and_told_once(tmp_path: Path) -> None:
    layout = Layout((2,), DeviceMatrix((3,)), ((),))
    with state_of(tmp_path, layout, {rank: np.arange(2.0) for rank in (1, 2)}) as state:
        write_file(tmp_path / "1.npz", {}, [], {})
        for _ in range(2):
            np.testing.assert_array_equal(state.read_box("w", Box.whole((2,))), [0.0, 1.0])
        assert state.holders("w", (0,)) == [1, 2]
    assert state.replaced == {
        1: f'{tmp_path}/1.npz: array "w" should be float64 of shape (2,), the file has no such array; it is of another '
        "step, rank or strategy (read from rank 2)"
    }


def test_elements_of_a_slice_are_read_from_any_of_them_on(tmp_path: Path) -> None:
    with state_of(tmp_path, CUT, {rank: part(CUT, rank) for rank in range(4)}) as state:
        target = np.empty(5)
        state.fill("w", (1, 0), 6, target)
    np.testing.assert_array_equal(target, part(CUT, 2).reshape(-1)[6:11])
