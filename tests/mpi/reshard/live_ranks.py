"""Takes a state of five tensors through layouts on 4, 3, 1 and 4 ranks again, and compares every slice with NumPy's."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpiparallel.communication import init, release
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.world import current
from mpiparallel.errors import ReshardError
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout, TensorMap
from mpiparallel.reshard import Movement, reshard

Arrays = dict[str, NDArray[Any]]

WHOLES: Arrays = {
    "bias": np.arange(7, dtype=np.int16),
    "large": np.arange(513 * 1025, dtype=np.float64).reshape(513, 1025),
    "nothing": np.zeros((0, 3), np.complex64),
    "step": np.array(3),
    "weight": np.random.default_rng(1).random((10, 6)) > 0.5,
}


def layouts_over(
    devices: DeviceMatrix, rows: tuple[int, ...], columns: tuple[int, ...], shard: tuple[int, ...] = ()
) -> dict[str, Layout]:
    """Return one layout a tensor: dim 0 cut along ``rows``, the last of two dims along ``columns``."""
    maps: dict[int, TensorMap] = {0: (), 1: (rows,), 2: (rows, columns)}
    return {
        tensor: Layout(whole.shape, devices, maps[whole.ndim], optimizer_axes=shard if whole.ndim else ())
        for tensor, whole in WHOLES.items()
    }


STAGES = [
    layouts_over(DeviceMatrix((2, 2)), (0,), (), (1,)),
    layouts_over(DeviceMatrix((3,), 1), (), (0,)),
    layouts_over(DeviceMatrix((1,), 2), (), ()),
    layouts_over(DeviceMatrix((2, 2)), (1, 0), ()),
    layouts_over(DeviceMatrix((4,)), (), ()),
]


def expected(layouts: dict[str, Layout], rank: int) -> Arrays:
    held = {tensor: layout for tensor, layout in layouts.items() if rank in layout.devices}
    return {
        tensor: WHOLES[tensor][(*layout.box(rank).within(Box.whole(layout.global_shape)), ...)]
        for tensor, layout in held.items()
    }


def check_stages(communicator: Communicator) -> None:
    state = expected(STAGES[0], communicator.rank)
    for before, after in pairwise(STAGES):
        moving = Movement(state, before, after, communicator)
        report = moving.forward()
        state = dict(moving.arrays)
        right = expected(after, communicator.rank)
        assert state.keys() == right.keys()
        for tensor, array in right.items():
            assert state[tensor].dtype == array.dtype
            assert np.array_equal(state[tensor], array), tensor
        total = sum(array.nbytes for rank in communicator.ranks for array in expected(after, rank).values())
        assert report.bytes_moved + report.bytes_kept == total


def check_refusal(communicator: Communicator) -> None:
    target = STAGES[4 if communicator.rank == 3 else 3]
    with pytest.raises(ReshardError, match=r"ranks \[3\] were given other layouts or options than rank 0"):
        reshard(expected(STAGES[0], communicator.rank), STAGES[0], target, communicator)


def main() -> None:
    init()
    communicator = current()
    check_stages(communicator)
    check_refusal(communicator)
    rank = communicator.rank
    release()
    sys.stdout.write(f"rank {rank} holds what NumPy gives\n")


if __name__ == "__main__":
    main()
