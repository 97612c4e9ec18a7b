"""Which columns of its batches a rank reads: those that its stage of a pipeline uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.dataclass import dataclass
from mpiparallel.dataset.dataset import Dataset
from mpiparallel.errors import DatasetError


@dataclass(frozen=True)
class ReadColumns:
    """The ``specs`` of all columns in a first batch by name, and the names of those that are ``read``."""

    specs: Mapping[str, TensorSpec]
    read: tuple[str, ...]

    @classmethod
    def of(cls, names: Sequence[str], specs: Sequence[TensorSpec], sharded: ShardedGraph) -> ReadColumns:
        """Return what a rank reads that runs a graph."""
        inputs, named = sharded.graph.inputs, dict(zip(names, specs, strict=True))
        used = {value for node in sharded.graph.nodes for value in node.inputs}.union(sharded.graph.outputs)
        if len(inputs) != len(names):
            return cls(named, tuple(names))
        read = [name for name, value in zip(names, inputs, strict=True) if value in used]
        return cls(named, tuple(read))

    def batches(self, dataset: Dataset, epoch: int, skip: int) -> Iterator[list[np.ndarray[Any, Any]]]:
        """Yield the batches of an epoch; in place of a column that is not read stand zeros that take no memory.

        Who reads none is told by the dataset how many rows there are; if that cannot tell, by its smallest column.
        """
        if not isinstance(dataset, Dataset) or len(self.read) == len(self.specs):
            given = dataset.iterate(epoch, skip)
        elif not self.read and next(dataset.stacked_rows(epoch, skip), 0) is not None:
            yield from (self._stand_ins((rows or 0,)) for rows in dataset.stacked_rows(epoch, skip))
            return
        else:
            smallest = min(self.specs, key=lambda name: self.specs[name].byte_count)
            given = dataset.iterate(epoch, skip, columns=self.read or [smallest])
        with closing(given):
            for columns in given:
                rows = next(iter(columns.values())).shape[:1]
                stand_ins = self._stand_ins(rows)
                yield [columns.get(name, other) for name, other in zip(self.specs, stand_ins, strict=True)]

    def _stand_ins(self, rows: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
        return [np.broadcast_to(np.zeros((), one.dtype), rows + one.shape[1:]) for one in self.specs.values()]


def first_batch(dataset: Dataset) -> dict[str, Any]:
    """Return the first batch by column; raise DatasetError where there is none."""
    for columns in dataset.iterate():
        return columns
    raise DatasetError("the dataset has no batch; use a smaller batch_size or drop_remainder=False")
