"""Checkpoint folders made with NumPy alone, and what is in them: the truth that conversions are held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.checkpoint.files.array_file import infos_of, read_array
from mpiparallel.checkpoint.formats.registry import open_file, write_file
from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import StrategyRecord
from mpiparallel.layout.layout import Layout

Arrays = dict[str, NDArray[Any]]


def numpy_slice(whole: NDArray[Any], layout: Layout, rank: int) -> NDArray[Any]:
    """Return what ``rank`` holds, by NumPy's own rule of splitting; ranks count up from the layout's first."""
    devices = layout.devices.shape
    place = np.unravel_index(rank - layout.devices.first_rank, devices) if devices else ()

    def part(array: NDArray[Any], axes: Sequence[int], dim: int) -> NDArray[Any]:
        if not axes:
            return array
        extents = [devices[axis] for axis in axes]
        index = int(np.ravel_multi_index([int(place[axis]) for axis in axes], extents))
        return np.array_split(array, int(np.prod(extents)), axis=dim)[index]

    for dim, axes in enumerate(layout.tensor_map):
        whole = part(whole, axes, dim)
    return part(whole, layout.optimizer_axes, 0)


def slices_of(whole: Mapping[str, NDArray[Any]], layouts: Mapping[str, Layout], rank: int) -> Arrays:
    """Return what ``rank`` holds of a state; what has no layout is whole on every rank."""
    return {
        name: numpy_slice(array, layouts[name], rank) if name in layouts else array
        for name, array in whole.items()
        if name not in layouts or rank in layouts[name].devices
    }


def write_state(
    folder: Path,
    whole: Mapping[str, NDArray[Any]],
    layouts: Mapping[str, Layout],
    ranks: int,
    name: str = "net-1_7.ckpt",
) -> None:
    """Write the file of each rank."""
    for rank in range(ranks):
        write_slices(folder / f"rank_{rank}" / name, slices_of(whole, layouts, rank))


def write_slices(path: Path, arrays: Arrays) -> None:
    """Write one file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, infos_of(arrays), arrays.items(), {})


def read_slices(path: Path) -> Arrays:
    """Return all arrays of a file."""
    with open_file(path) as file:
        return {name: read_array(file, name) for name in file.arrays}


def write_layouts(path: Path, layouts: Mapping[str, Layout], stage: int = 0) -> Path:
    """Write a strategy file of the layouts, with an operator on each parameter."""
    strategies = {f"MatMul_{name}": ((1, 1), layout.cuts) for name, layout in layouts.items()}
    write_strategy(path, StrategyRecord.of(layouts, strategies, stage=stage))
    return path


def assert_same(found: Arrays, expected: Arrays) -> None:
    """Fail unless names, dtypes, shapes and bytes are equal."""
    assert {name: (array.dtype, array.shape) for name, array in found.items()} == {
        name: (array.dtype, array.shape) for name, array in expected.items()
    }
    for name, array in found.items():
        assert array.tobytes() == np.ascontiguousarray(expected[name]).tobytes(), name


def numbers(shape: tuple[int, ...], dtype: str = "float32", start: int = 0) -> NDArray[Any]:
    """Return an array in which no two elements are alike."""
    return (np.arange(start, start + int(np.prod(shape)))).reshape(shape).astype(dtype)
