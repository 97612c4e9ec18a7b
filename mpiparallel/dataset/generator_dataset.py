"""A dataset from a Python source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import GeneratorType
from typing import Any

import numpy as np
import numpy.typing as npt

from mpiparallel.dataset import config
from mpiparallel.dataset.dataset import Dataset
from mpiparallel.dataset.source import (
    IterableStage,
    RandomAccess,
    RandomAccessStage,
    RowReader,
    as_names,
    sample_order,
)
from mpiparallel.dataset.stage import Stage, check_count
from mpiparallel.dataset.worker_arguments import remark_on_workers
from mpiparallel.errors import DatasetError

_NAME = "GeneratorDataset"
Source = RandomAccess | Iterable[Any] | Callable[[], Iterable[Any]]


class GeneratorDataset(Dataset):
    """Reads rows from ``source``.

    Of ``num_shards`` shards, ``shard_id`` reads the positions shard_id, shard_id + num_shards, ... of the same order.
    Each shard has ceil(samples / num_shards) samples. Where the shards do not come out even, the first samples of the
    order are read again. Sources without ``__getitem__`` are read in turn and cannot be shuffled or sharded here.

    Parameters
    ----------
    source : object, iterable or callable
        Something with ``__getitem__`` and ``__len__``, an iterable, or a function that returns one. A row is a tuple of
        one value for each column.
    column_names : str or sequence of str, optional
        The columns.
    column_types : sequence of dtype, optional
        They are checked, not cast to.
    schema : object, optional
        Refused.
    num_samples : int, optional
        What each shard reads at most.
    num_parallel_workers, python_multiprocessing, max_rowsize
        MindSpore's; they change nothing, as a remark says.
    shuffle : bool, optional
        Whether a source with ``__getitem__`` is shuffled in every epoch; it is, unless there is a ``sampler``.
    sampler : iterable of int, optional
        The indices that are read, in order.
    num_shards, shard_id : int, optional
        Into how many shards the samples are dealt, and which is read.

    Raises
    ------
    DatasetError
        If parameters contradict one another; while iterating, if a row does not fit the columns.

    Examples
    --------
    >>> data = GeneratorDataset([(1, 2), (3, 4)], ["x", "y"], shuffle=False)
    >>> [(row["x"].item(), row["y"].item()) for row in data.iterate()]
    [(1, 2), (3, 4)]
    """

    def __init__(
        self,
        source: Source,
        column_names: str | Sequence[str] | None = None,
        column_types: Sequence[npt.DTypeLike] | None = None,
        schema: object = None,
        num_samples: int | None = None,
        num_parallel_workers: int = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        num_shards: int | None = None,
        shard_id: int | None = None,
        python_multiprocessing: bool = False,
        max_rowsize: int = 6,
    ) -> None:
        remark_on_workers(
            *(_NAME, 1),
            num_parallel_workers=num_parallel_workers,
            python_multiprocessing=python_multiprocessing,
            max_rowsize=max_rowsize,
        )
        reader = _reader(column_names, column_types, schema)
        if isinstance(source, RandomAccess):
            order = sample_order(
                _NAME, len(source), config.get_seed(), shuffle, sampler, num_shards, shard_id, num_samples
            )
            stage: Stage = RandomAccessStage(reader, source, order)
        else:
            _refuse_order(shuffle, sampler, num_shards, shard_id)
            if num_samples is not None:
                check_count(_NAME, "num_samples", num_samples, 1)
            stage = IterableStage(reader, _starter(source), num_samples)
        super().__init__(stage)


def _reader(names: str | Sequence[str] | None, types: Sequence[npt.DTypeLike] | None, schema: object) -> RowReader:
    if schema is not None:
        raise DatasetError(f"{_NAME}: a schema is not supported; give column_names and column_types")
    if not names:
        raise DatasetError(f"{_NAME}: column_names is missing; name every value of a row")
    dtypes = None if types is None else tuple(np.dtype(dtype) for dtype in types)
    return RowReader(_NAME, as_names(names), dtypes)


def _refuse_order(*parameters: object) -> None:
    for name, value in zip(("shuffle", "sampler", "num_shards", "shard_id"), parameters, strict=True):
        if value is not None and value is not False:
            raise DatasetError(
                f"{_NAME}: {name} needs a source with __getitem__ and __len__; "
                "give it both, or call .shuffle(buffer_size) for the order"
            )


def _starter(source: object) -> Callable[[], Iterator[Any]]:
    if isinstance(source, GeneratorType):
        raise DatasetError(
            f"{_NAME}: source is a generator, used up after one epoch; give the generator function itself, uncalled"
        )
    if callable(source):
        return lambda: iter(source())
    if isinstance(source, Iterable):
        return lambda: iter(source)
    raise DatasetError(
        f"{_NAME}: source is a {type(source).__name__}; give a function that returns an iterator, an iterable, "
        "or an object with __getitem__ and __len__"
    )
