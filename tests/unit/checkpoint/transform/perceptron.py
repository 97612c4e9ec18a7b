"""A perceptron's state and its layouts on several numbers of ranks, in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.unit.checkpoint.transform.stored_slices import assert_same, numbers, read_slices, slices_of


def mlp(devices: tuple[int, ...], rows: tuple[int, ...], columns: tuple[int, ...], shards: tuple[int, ...] = ()):
    """Return the layouts of two weights and their moments: w1 cut by columns, w2 by rows, as in a perceptron."""
    matrix = DeviceMatrix(devices)
    w1 = Layout((64, 32), matrix, (rows, columns), optimizer_axes=shards)
    w2 = Layout((32, 16), matrix, (columns, rows), optimizer_axes=shards)
    return {"net.w1": w1, "net.w2": w2, "moments.net.w1": w1, "moments.net.w2": w2}


def state_of(layouts: dict[str, Layout]) -> dict[str, NDArray[Any]]:
    arrays = {name: numbers(layout.global_shape, start=1000 * i) for i, (name, layout) in enumerate(layouts.items())}
    return arrays | {"learning_rate": np.array(0.1, np.float32), "global_step": np.array([7], np.int32)}


LAYOUTS = {
    8: mlp((2, 4), (), (1,), shards=(0,)),
    4: mlp((4,), (), (0,)),
    6: mlp((2, 3), (0,), (1,)),
    64: mlp((8, 8), (0,), (1,)),
}
WHOLE = state_of(LAYOUTS[8])


def assert_folder(folder: Path, prefix: str, ranks: int, suffix: str = ".ckpt") -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"rank_{rank}" for rank in range(ranks))
    for rank in range(ranks):
        found = read_slices(folder / f"rank_{rank}" / f"{prefix}{rank}{suffix}")
        assert_same(found, slices_of(WHOLE, LAYOUTS.get(ranks, {}), rank))
