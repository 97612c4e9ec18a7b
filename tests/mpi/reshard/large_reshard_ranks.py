"""Moves more than 2^31 bytes and elements from rank 0 to rank 1 by one executor; almost all of them are zeros."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.communication import init, release
from mpiparallel.communication.world import current
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard import reshard

ROWS, COLUMNS = 2, (1 << 30) + 4097
# In the source the second row lies more than 2^31 bytes behind the first.
GAP = 1 << 30
MARKS = 1000


def marks() -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Return rows, columns and values of the elements that are not zero: all corners and random places."""
    generator = np.random.default_rng(0)
    rows = np.concatenate([[0, 0, ROWS - 1, ROWS - 1], generator.integers(0, ROWS, MARKS)])
    columns = np.concatenate([[0, COLUMNS - 1, 0, COLUMNS - 1], generator.integers(0, COLUMNS, MARKS)])
    return rows, columns, (rows * 101 + columns % 101 + 1).astype(np.uint8) | np.uint8(1)


def main() -> None:
    init()
    communicator = current()
    source, target = (Layout((ROWS, COLUMNS), DeviceMatrix((1,), rank), ((), ())) for rank in (0, 1))
    rows, columns, values = marks()
    arrays: dict[str, NDArray[Any]] = {}
    if communicator.rank == 0:
        arrays["w"] = np.zeros((ROWS, COLUMNS + GAP), np.uint8)[:, :COLUMNS]
        arrays["w"][rows, columns] = values
    found = reshard(arrays, {"w": source}, {"w": target}, communicator, executor=sys.argv[1], mode=sys.argv[2])
    if communicator.rank == 1:
        assert found["w"].nbytes > 1 << 31
        assert np.array_equal(found["w"][rows, columns], values)
        assert np.count_nonzero(found["w"]) == len(set(zip(rows.tolist(), columns.tolist(), strict=True)))
        sys.stdout.write(f"{found['w'].nbytes} bytes arrived as they were\n")
    else:
        assert found == {}
    release()


if __name__ == "__main__":
    main()
