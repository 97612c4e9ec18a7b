"""Where the rows come from: samples read by index in an order that all ranks agree on, or an iterable read in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from mpiparallel.dataclass import dataclass
from mpiparallel.dataset.random_key import RandomKey
from mpiparallel.dataset.stage import Array, Row, as_array, check_count, check_distinct
from mpiparallel.errors import DatasetError


@runtime_checkable
class RandomAccess(Protocol):
    """Samples that can be read by index."""

    def __getitem__(self, index: int, /) -> Any: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class RowReader:
    """Turns one sample of a source into a row, and refuses what does not fit the columns."""

    owner: str
    columns: tuple[str, ...]
    dtypes: tuple[np.dtype[Any], ...] | None = None

    def __post_init__(self) -> None:
        check_distinct(self.owner, self.columns)
        if self.dtypes is not None and len(self.dtypes) != len(self.columns):
            raise DatasetError(
                f"{self.owner}: {len(self.dtypes)} column_types for {len(self.columns)} columns; give one for each"
            )

    def read(self, number: int, sample: object) -> dict[str, Array]:
        """Return the columns of ``sample``, a tuple or list of one value each, or the value of the only one."""
        where = f"{self.owner}: row {number}"
        values = tuple(sample) if isinstance(sample, (tuple, list)) else (sample,)
        if len(values) != len(self.columns):
            raise DatasetError(
                f"{where} has {len(values)} values, but there are {len(self.columns)} columns "
                f"({', '.join(self.columns)}); let the source give a tuple of {len(self.columns)}"
            )
        arrays = [as_array(where, column, value) for column, value in zip(self.columns, values, strict=True)]
        for column, array, dtype in zip(self.columns, arrays, self.dtypes or (), strict=False):
            if array.dtype != dtype:
                raise DatasetError(
                    f'{where}: column "{column}" is {array.dtype}, but column_types says {dtype}; '
                    "convert it in the source, or leave column_types out and map TypeCast"
                )
        return dict(zip(self.columns, arrays, strict=True))


@dataclass(frozen=True)
class SampleOrder:
    """Which samples one shard reads in an epoch, and in what order.

    The order of all samples is made first and is then dealt out: shard r of n reads positions r, r + n, r + 2n, ...
    Where n does not divide the samples, the first ones of the order are read again: all shards are equally long.
    """

    length: int
    key: RandomKey | None
    sampler: Iterable[int] | None
    num_shards: int
    shard_id: int
    num_samples: int | None

    def size(self) -> int:
        """Return how many samples the shard reads in an epoch."""
        total = self.length if self.sampler is None else sum(1 for _ in self.sampler)
        share = -(-total // self.num_shards)
        return share if self.num_samples is None else min(share, self.num_samples)

    def indices(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return the sample indices of the shard in ``epoch``, shape ``(size,)``."""
        order = self._all(epoch)
        positions = self.shard_id + self.num_shards * np.arange(self.size(), dtype=np.int64)
        return order[positions % max(len(order), 1)]

    def _all(self, epoch: int) -> npt.NDArray[np.int64]:
        if self.sampler is not None:
            return np.fromiter((int(index) for index in self.sampler), dtype=np.int64)
        if self.key is not None:
            return self.key.permutation(epoch, self.length)
        return np.arange(self.length, dtype=np.int64)


class RandomAccessStage:
    """Samples read by index."""

    place = 0
    batch_size = 1

    def __init__(self, reader: RowReader, source: RandomAccess, order: SampleOrder) -> None:
        self.columns = reader.columns
        self._reader = reader
        self._source = source
        self.order = order

    def size(self) -> int:
        """Return the samples that this shard reads in an epoch."""
        return self.order.size()

    def dealt(self, num_shards: int, shard_id: int) -> RandomAccessStage:
        """Return the stage of another shard of as many."""
        return RandomAccessStage(
            self._reader, self._source, replace(self.order, num_shards=num_shards, shard_id=shard_id)
        )

    def rows(self, epoch: int, start: int) -> Iterator[Row]:
        """Yield the samples of ``epoch`` from ``start`` on; those before it are not read."""
        for index in self.order.indices(epoch)[start:].tolist():
            if not 0 <= index < self.order.length:
                raise DatasetError(
                    f"{self._reader.owner}: the sampler gave index {index}; "
                    f"give indices from 0 to {self.order.length - 1}"
                )
            yield Row(index, partial(self._read, index))

    def _read(self, index: int) -> dict[str, Array]:
        return self._reader.read(index, self._source[index])


class IterableStage:
    """Samples read in turn from a fresh iterator each epoch."""

    place = 0
    batch_size = 1

    def __init__(self, reader: RowReader, start: Callable[[], Iterator[Any]], num_samples: int | None) -> None:
        self.columns = reader.columns
        self._reader = reader
        self._start = start
        self._num_samples = num_samples
        self._size: int | None = None

    def size(self) -> int:
        """Return the samples of an epoch; the first call reads the source once to count them."""
        if self._size is None:
            self._size = sum(1 for _ in islice(self._start(), self._num_samples))
        return self._size

    def rows(self, epoch: int, start: int) -> Iterator[Row]:
        """Yield the samples from ``start`` on; those before it are read and dropped."""
        number = -1
        for number, sample in enumerate(islice(self._start(), self._num_samples)):
            if number >= start:
                yield Row(number, partial(self._reader.read, number, sample))
        if number < 0 and epoch > 0:
            raise DatasetError(
                f"{self._reader.owner}: the source gave no row in epoch {epoch}; let its __iter__ start from the first "
                "row each time, or give a function that returns a new iterator"
            )


def sample_order(
    owner: str,
    length: int,
    seed: int,
    shuffle: bool | None,
    sampler: Iterable[int] | None,
    num_shards: int | None,
    shard_id: int | None,
    num_samples: int | None,
) -> SampleOrder:
    """Return the order of ``length`` samples; ``shuffle`` None shuffles, unless there is a sampler.

    Raises:
        DatasetError: if the parameters contradict one another.
    """
    if sampler is not None and (shuffle is not None or num_shards is not None):
        raise DatasetError(f"{owner}: sampler stands beside shuffle or num_shards; give the one or the other")
    if sampler is not None and iter(sampler) is sampler:
        raise DatasetError(
            f"{owner}: sampler is an iterator, used up after one epoch; give a list or an array of indices"
        )
    if (num_shards is None) != (shard_id is None):
        raise DatasetError(f"{owner}: num_shards is {num_shards} and shard_id is {shard_id}; give both or neither")
    shards, shard = 1 if num_shards is None else num_shards, 0 if shard_id is None else shard_id
    check_count(owner, "num_shards", shards, 1)
    check_count(owner, "shard_id", shard, 0)
    if shard >= shards:
        raise DatasetError(f"{owner}: shard_id is {shard}, but num_shards is {shards}; give 0 to {shards - 1}")
    if num_samples is not None:
        check_count(owner, "num_samples", num_samples, 1)
    shuffled = sampler is None and (shuffle is None or bool(shuffle))
    return SampleOrder(length, RandomKey(seed, 0) if shuffled else None, sampler, shards, shard, num_samples)


def as_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Return one name or several as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names)
