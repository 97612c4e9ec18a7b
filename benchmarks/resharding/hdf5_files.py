"""HDF5: each rank writes its own file, and reads hyperslabs of the others'."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import h5py
import numpy as np
from resharding.work import Arrays, Work

from mpiparallel.layout.box import Box


class Hdf5Files:
    """One contiguous dataset a tensor; replicas are written once; the folder should be in memory."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._targets = work.new_arrays(1)
        self._mine = {
            name: array for name, array in work.sources.items() if work.layouts[name][0].replica(work.rank) == 0
        }
        self._reads: dict[int, list[tuple[str, tuple[slice, ...], tuple[slice, ...]]]] = defaultdict(list)
        for name, (source, target) in work.layouts.items():
            if work.rank not in target.devices:
                continue
            wanted = target.box(work.rank)
            for parts in source.parts_over(wanted):
                held = source.box_of_parts(parts)
                overlap = held.intersection(wanted)
                if overlap is not None:
                    self._reads[source.rank_at(parts)].append((name, *_selections(overlap, held, wanted)))

    def _file(self, rank: int) -> Path:
        return self._work.folder / f"state{rank}.h5"

    def run(self) -> None:
        with h5py.File(self._file(self._work.rank), "w") as file:
            for name, array in self._mine.items():
                file.create_dataset(name, data=array)
        self._work.comm.Barrier()
        for rank, reads in self._reads.items():
            with h5py.File(self._file(rank), "r") as file:
                for name, given, taken in reads:
                    file[name].read_direct(self._targets[name], np.s_[given], np.s_[taken])

    def results(self) -> Arrays:
        return self._targets

    def close(self) -> None:
        self._work.comm.Barrier()
        self._file(self._work.rank).unlink(missing_ok=True)


def _selections(overlap: Box, held: Box, wanted: Box) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    return overlap.within(held), overlap.within(wanted)
