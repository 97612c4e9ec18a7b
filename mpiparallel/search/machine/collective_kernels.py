"""The kernels of collectives as steps run them, on matrices of a chosen size."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.backend.protocol import Backend
from mpiparallel.communication.protocol import Communicator
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout, TensorMap
from mpiparallel.parallel.redistribution import redistribute
from mpiparallel.parallel.redistribution_operators import redistributing_operator

_ITEM: Final = np.dtype(np.float32)
_ROWS: Final = 16

_WHOLE: Final[TensorMap] = ((), ())
_BY_ROWS: Final[TensorMap] = ((1,), ())
_BY_COLUMNS: Final[TensorMap] = ((), (1,))


class _Ends(NamedTuple):
    source: TensorMap
    target: TensorMap
    partial: tuple[int, ...] = ()


_ENDS: Final = {
    "reduce": _Ends(_WHOLE, _WHOLE, (1,)),
    "reduce_scatter": _Ends(_WHOLE, _BY_COLUMNS, (1,)),
    "gather": _Ends(_BY_COLUMNS, _WHOLE),
    "exchange": _Ends(_BY_ROWS, _BY_COLUMNS),
}
"""How a matrix is cut, before and after each of ``COLLECTIVES``; columns have to be packed, as most parts have."""


class CollectiveKernel(NamedTuple):
    """What runs a collective on this rank, and the bytes that it sums up, gathers or receives."""

    size: int
    run: Kernel


def collective_kernel(
    communicator: Communicator, kind: str, ranks: int, size: int, backend: Backend | None = None
) -> CollectiveKernel:
    """Return a collective among each ``ranks`` of a host side by side, of about ``size`` bytes; all of them call it.

    Its arrays are those of ``backend``, by default NumPy's.
    """
    where = backend or NumpyBackend()
    host, rank = communicator.host_ranks, communicator.ranks[communicator.rank]
    devices = DeviceMatrix((len(host) // ranks, ranks), ranks=host)
    columns = max(size // (_ROWS * ranks * _ITEM.itemsize), 1) * ranks
    ends = _ENDS[kind]
    # An exchange leaves a rank a part of the matrix.
    shape = (_ROWS * ranks, columns) if kind == "exchange" else (_ROWS, columns)
    (step,) = redistribute(Layout(shape, devices, ends.source, ends.partial), Layout(shape, devices, ends.target))
    given, wanted = (where.from_host(np.zeros(one.local_shape(rank), _ITEM)) for one in (step.source, step.target))
    operator = redistributing_operator([step], rank)
    run = operator.kernel(Runtime(where, communicator), [given], [wanted])
    held = wanted.nbytes if kind in ("gather", "exchange") else given.nbytes
    return CollectiveKernel(held * (ranks - 1) // ranks if kind == "exchange" else held, run)
