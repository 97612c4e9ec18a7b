"""Turn a matrix that ranks hold by rows into one that fewer of them hold by columns, with NumPy and mpi4py alone.

mpiparallel run -n 4 reshard_arrays.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from mpi4py import MPI

from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard import reshard

SHAPE = (1000, 600)


def main():
    world = MPI.COMM_WORLD
    takers = max(1, world.size - 1)
    rows = Layout(SHAPE, DeviceMatrix((world.size,)), ((0,), ()))  # dim 0 is cut along axis 0 of all ranks
    columns = Layout(SHAPE, DeviceMatrix((takers,)), ((), (0,)))  # dim 1 along the only axis of the first ones

    box = rows.box(world.rank)
    matrix = np.arange(SHAPE[0] * SHAPE[1], dtype=np.float64).reshape(SHAPE)
    mine = matrix[box.start[0] : box.stop[0]].copy()
    turned = reshard(mine, rows, columns, world)

    if world.rank < takers:
        box = columns.box(world.rank)
        assert np.array_equal(turned, matrix[:, box.start[1] : box.stop[1]])
    shape = None if turned is None else turned.shape
    held = mine.size, 0 if turned is None else turned.size
    told = world.gather((f"rank {world.rank}: {mine.shape} -> {shape}", held))
    if told:
        print(*(line for line, _ in told), sep="\n")
        bars = {
            when: {f"rank {rank}": sizes[index] for rank, (_, sizes) in enumerate(told)}
            for index, when in enumerate(("by rows", "by columns"))
        }
        Path("arrays.result.json").write_text(json.dumps({"y": "elements held", "bars": bars}))


if __name__ == "__main__":
    main()
