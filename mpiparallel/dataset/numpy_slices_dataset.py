"""A dataset from arrays in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mpiparallel.dataset import config
from mpiparallel.dataset.dataset import Dataset
from mpiparallel.dataset.source import RandomAccessStage, RowReader, as_names, sample_order
from mpiparallel.dataset.stage import Array, as_array
from mpiparallel.dataset.worker_arguments import remark_on_workers
from mpiparallel.errors import DatasetError

_NAME = "NumpySlicesDataset"


class NumpySlicesDataset(Dataset):
    """Reads rows along the first dim of arrays.

    Parameters
    ----------
    data : dict, tuple, array or list
        A dict of name to array, a tuple of arrays, or one array or list; all equally long.
    column_names : str or sequence of str, optional
        The columns; without, the dict's keys, or ``column_0``, ``column_1``, ...
    num_samples : int, optional
        What each shard reads at most.
    num_parallel_workers : int, optional
        MindSpore's; changes nothing, as a remark says.
    shuffle : bool, optional
        Whether the samples are shuffled in every epoch; they are, unless there is a ``sampler``.
    sampler : iterable of int, optional
        The indices that are read, in order.
    num_shards, shard_id : int, optional
        Into how many shards the samples are dealt, and which is read: see ``GeneratorDataset``.

    Raises
    ------
    DatasetError
        If the arrays are not equally long, or parameters contradict one another.

    Examples
    --------
    >>> data = NumpySlicesDataset({"x": [1, 2, 3]}, shuffle=False).batch(2)
    >>> [batch["x"].tolist() for batch in data.iterate()]
    [[1, 2], [3]]
    """

    def __init__(
        self,
        data: Any,
        column_names: str | Sequence[str] | None = None,
        num_samples: int | None = None,
        num_parallel_workers: int = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        num_shards: int | None = None,
        shard_id: int | None = None,
    ) -> None:
        remark_on_workers(_NAME, 1, num_parallel_workers=num_parallel_workers)
        slices = _Slices(_columns(data, column_names))
        order = sample_order(_NAME, len(slices), config.get_seed(), shuffle, sampler, num_shards, shard_id, num_samples)
        super().__init__(RandomAccessStage(RowReader(_NAME, tuple(slices.columns)), slices, order))


def _columns(data: Any, names: str | Sequence[str] | None) -> dict[str, Array]:
    values = list(data.values()) if isinstance(data, Mapping) else list(data) if isinstance(data, tuple) else [data]
    if names is not None:
        labels = as_names(names)
    else:
        labels = tuple(data) if isinstance(data, Mapping) else tuple(f"column_{i}" for i in range(len(values)))
    if len(labels) != len(values):
        raise DatasetError(
            f"{_NAME}: {len(values)} arrays but {len(labels)} column_names ({', '.join(labels)}); give a name for each"
        )
    return {label: as_array(_NAME, label, value) for label, value in zip(labels, values, strict=True)}


class _Slices:
    """Arrays of equal length, read row by row."""

    def __init__(self, columns: dict[str, Array]) -> None:
        self.columns = columns
        shapes = {name: array.shape for name, array in columns.items()}
        if not shapes or any(not shape for shape in shapes.values()) or len({s[0] for s in shapes.values()}) > 1:
            listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise DatasetError(f"{_NAME}: the shapes are {listed or 'missing'}; give arrays with an equal first dim")

    def __getitem__(self, index: int) -> tuple[Array, ...]:
        return tuple(array[index] for array in self.columns.values())

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))
