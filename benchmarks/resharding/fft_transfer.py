"""mpi4py-fft: one Transfer a tensor, an Alltoallw of subarrays."""

from __future__ import annotations

import numpy as np
from mpi4py_fft.pencil import Pencil, Subcomm
from resharding.cases import columns, rows
from resharding.work import Arrays, Unsuited, Work


class FftTransfer:
    """Pencils turned from rows to columns, tensor after tensor."""

    def __init__(self, work: Work) -> None:
        for source, target in work.layouts.values():
            shape = source.global_shape
            if len(shape) < 2 or (source, target) != (rows(shape, work.ranks), columns(shape, work.ranks)):
                raise Unsuited("it turns pencils on one set of ranks: no replicas, no other number of ranks")
        self._targets = work.new_arrays(1)
        subcomm = Subcomm(work.comm, [0, 1])
        self._transfers = []
        for name, (source, _) in work.layouts.items():
            pencil = Pencil(subcomm, source.global_shape, axis=1)
            transfer = pencil.transfer(pencil.pencil(0), np.dtype(np.float32))
            self._transfers.append((transfer, work.sources[name], self._targets[name]))

    def run(self) -> None:
        for transfer, source, target in self._transfers:
            transfer.forward(source, target)

    def results(self) -> Arrays:
        return self._targets

    def close(self) -> None:
        for transfer, _, _ in self._transfers:
            transfer.destroy()
