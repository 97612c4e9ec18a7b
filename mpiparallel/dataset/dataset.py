"""The pipeline that a program builds: a source and the operations on its rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from mpiparallel.compatibility.arguments import only
from mpiparallel.dataset import config
from mpiparallel.dataset.batch_stage import BatchStage
from mpiparallel.dataset.column_stage import project, rename
from mpiparallel.dataset.dealing import dealt, shards_of
from mpiparallel.dataset.epoch_iterator import EpochIterator, array_converter
from mpiparallel.dataset.map_stage import MapStage
from mpiparallel.dataset.order_stages import RepeatStage, ShuffleStage, SkipStage, TakeStage
from mpiparallel.dataset.random_key import RandomKey
from mpiparallel.dataset.read_ahead import ClosableIterator, ReadAhead
from mpiparallel.dataset.source import RandomAccessStage, as_names
from mpiparallel.dataset.stage import Array, Stage, check_count
from mpiparallel.dataset.synthetic_data import given_batch
from mpiparallel.dataset.worker_arguments import remark_on_workers
from mpiparallel.errors import DatasetError

Operations = Callable[..., Any] | Sequence[Callable[..., Any]]


class Dataset:
    """Rows of named columns, the same in every process that builds the same pipeline.

    Every method gives a new dataset and leaves this one as it is. The order of the rows depends only on the seed, the
    operation's place in the pipeline and the epoch. Each epoch can be started at any batch. ``iterate`` gives arrays of
    NumPy, MindSpore's iterators give tensors.

    Parameters
    ----------
    stage : Stage
        The last step of the pipeline; users make datasets by the classes below this one.

    Examples
    --------
    >>> import mpiparallel.dataset as ds
    >>> numbers = ds.NumpySlicesDataset(np.arange(5), column_names="x", shuffle=False).batch(2)
    >>> [batch["x"].tolist() for batch in numbers.iterate(epoch=0, skip=1)]
    [[2, 3], [4]]
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def iterate(
        self, epoch: int = 0, skip: int = 0, columns: Sequence[str] | None = None
    ) -> ClosableIterator[dict[str, Array]]:
        """Yield the rows (batches, after ``batch``) of ``epoch`` as column name to array, behind the first ``skip``.

        What is skipped is not read, except from an iterable, and no operation is applied to it. With ``columns`` there
        are these alone, and nothing is done for others that they do not need. A thread reads
        ``config.get_prefetch_size()`` rows (batches) ahead; ``close()`` ends it, as does dropping the iterator.

        Raises:
            DatasetError: if the epoch has fewer than ``skip`` rows.
        """
        check_count("iterate", "epoch", epoch, 0)
        check_count("iterate", "skip", skip, 0)
        given = given_batch(self._stage.columns)
        if given is not None:
            return (batch for batch in [given])
        size = self._stage.size() if skip else None
        if size is not None and skip > size:
            raise DatasetError(f"iterate: skip is {skip}, but an epoch has {size} rows; is it the same dataset?")
        ahead = config.get_prefetch_size()
        return (
            ReadAhead(partial(self._read, epoch, skip, columns), ahead) if ahead else self._read(epoch, skip, columns)
        )

    def stacked_rows(self, epoch: int, skip: int) -> Iterator[int | None]:
        """Yield how many rows each batch of ``epoch`` has, behind the first ``skip``, and read none of them.

        None stands where only the arrays of a batch tell.
        """
        return (row.stacked for row in self._stage.rows(epoch, skip))

    def _read(
        self, epoch: int, skip: int, columns: Sequence[str] | None = None
    ) -> Generator[dict[str, Array], None, None]:
        names = self._stage.columns if columns is None else columns
        return ({name: row.values[name] for name in names} for row in self._stage.rows(epoch, skip))

    def __iter__(self) -> Iterator[list[Any]]:
        return self.create_tuple_iterator(num_epochs=1)

    def __len__(self) -> int:
        return self.get_dataset_size()

    def create_tuple_iterator(
        self,
        columns: Sequence[str] | None = None,
        num_epochs: int = -1,
        output_numpy: bool = False,
        do_copy: bool = False,
    ) -> EpochIterator[list[Any]]:
        """Return an iterator of lists, a tensor for each of ``columns`` (all); each ``for`` loop is one epoch.

        With ``output_numpy`` there are arrays instead, as there are for text in any case. ``do_copy`` is MindSpore's
        and changes nothing, as a remark says.
        """
        chosen = self if columns is None else self.project(list(columns))
        given = array_converter("create_tuple_iterator", output_numpy, do_copy)
        return EpochIterator(
            lambda epoch: (list(map(given, row.values())) for row in chosen.iterate(epoch)), num_epochs
        )

    def create_dict_iterator(
        self, num_epochs: int = -1, output_numpy: bool = False, do_copy: bool = False
    ) -> EpochIterator[dict[str, Any]]:
        """Return an iterator of column name to tensor; each ``for`` loop is one epoch.

        ``output_numpy`` and ``do_copy`` are those of :meth:`create_tuple_iterator`.
        """
        given = array_converter("create_dict_iterator", output_numpy, do_copy)
        return EpochIterator(
            lambda epoch: ({name: given(value) for name, value in row.items()} for row in self.iterate(epoch)),
            num_epochs,
        )

    def map(
        self,
        operations: Operations,
        input_columns: str | Sequence[str] | None = None,
        output_columns: str | Sequence[str] | None = None,
        column_order: Sequence[str] | None = None,
        num_parallel_workers: int | None = None,
        python_multiprocessing: bool = False,
    ) -> Dataset:
        """Replace ``input_columns`` (the first column) by what ``operations`` give for them.

        An operation takes one array for each input column and returns one value, or a tuple of one for each of
        ``output_columns`` (the input columns). ``column_order`` then chooses columns as :meth:`project` does. The last
        two parameters are MindSpore's and change nothing, as a remark says.

        Raises:
            DatasetError: if a column is not there; while iterating, if an operation fails or gives too few values.
        """
        remark_on_workers(
            "map", num_parallel_workers=num_parallel_workers, python_multiprocessing=python_multiprocessing
        )
        if isinstance(column_order, int):
            raise DatasetError(
                f"map: column_order {column_order} must name columns; name the argument num_parallel_workers="
                f"{column_order}, which newer versions of MindSpore have in its place"
            )
        listed = [operations] if callable(operations) else list(operations)
        inputs = self._stage.columns[:1] if input_columns is None else as_names(input_columns)
        outputs = inputs if output_columns is None else as_names(output_columns)
        mapped = Dataset(MapStage(self._stage, listed, inputs, outputs, config.get_seed()))
        return mapped if column_order is None else mapped.project(column_order)

    def batch(self, batch_size: int, drop_remainder: bool = False, num_parallel_workers: int | None = None) -> Dataset:
        """Stack every ``batch_size`` rows along a new first dim; ``drop_remainder`` drops a smaller last batch."""
        remark_on_workers("batch", num_parallel_workers=num_parallel_workers)
        return Dataset(BatchStage(self._stage, batch_size, drop_remainder))

    def shuffle(self, buffer_size: int) -> Dataset:
        """Draw each row from a buffer of the next ``buffer_size`` rows; a buffer as large as the epoch mixes it all."""
        return Dataset(ShuffleStage(self._stage, buffer_size, config.get_seed()))

    def repeat(self, count: int | None = None) -> Dataset:
        """Make ``count`` passes one epoch, each shuffled anew; None or -1 never ends."""
        return Dataset(RepeatStage(self._stage, None if count in (None, -1) else count))

    def take(self, count: int = -1) -> Dataset:
        """Keep the first ``count`` rows (batches) of each epoch; -1 keeps all."""
        return self if count == -1 else Dataset(TakeStage(self._stage, count))

    def skip(self, count: int) -> Dataset:
        """Leave out the first ``count`` rows (batches) of each epoch."""
        return Dataset(SkipStage(self._stage, count))

    def project(self, columns: str | Sequence[str]) -> Dataset:
        """Keep only ``columns``, in that order."""
        return Dataset(project(self._stage, as_names(columns)))

    def rename(self, input_columns: str | Sequence[str], output_columns: str | Sequence[str]) -> Dataset:
        """Give ``input_columns`` the names ``output_columns``."""
        return Dataset(rename(self._stage, as_names(input_columns), as_names(output_columns)))

    def get_dataset_size(self) -> int:
        """Return how many rows (batches, after ``batch``) an epoch has; an iterable source is read once to count.

        Raises:
            DatasetError: if the epoch never ends.
        """
        if given_batch(self._stage.columns) is not None:
            return 1
        size = self._stage.size()
        if size is None:
            raise DatasetError("get_dataset_size: repeat without a count never ends; give repeat a count, or take rows")
        return size

    def get_batch_size(self) -> int:
        """Return the rows of a full batch, 1 before any ``batch``."""
        given = given_batch(self._stage.columns)
        return self._stage.batch_size if given is None else len(next(iter(given.values())))

    def get_repeat_count(self) -> int:
        """Return how often the last ``repeat`` passes over the rows, 1 without one; -1 where it never ends."""
        stage: Any = self._stage
        while stage is not None and not isinstance(stage, RepeatStage):
            stage = getattr(stage, "_parent", None)
        if stage is None:
            return 1
        return -1 if stage.passes is None else stage.passes

    def get_col_names(self) -> list[str]:
        """Return the names of the columns in order."""
        return list(self._stage.columns)

    def output_shapes(self, estimate: bool = False) -> list[list[int]]:
        """Return the shape of each column in the first row of the first epoch; ``estimate`` is refused."""
        only("output_shapes", "estimate", estimate, False, "look at the rows of iterate()")
        return [list(array.shape) for array in self._first().values()]

    def output_types(self) -> list[np.dtype[Any]]:
        """Return the dtype of each column in the first row of the first epoch."""
        return [array.dtype for array in self._first().values()]

    @property
    def num_shards(self) -> int:
        """Over how many shards its samples are dealt out; 1 where they are not."""
        return shards_of(self._stage)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that the order of its rows and its random operations come from; none where nothing is random."""
        return seeds_of(self._stage)

    def dealt(self, num_shards: int, shard_id: int, batch_size: int) -> Dataset:
        """Return the shard ``shard_id`` of ``num_shards`` of the same samples in the same order, batched anew.

        The batches of all shards together have the same samples for every number of shards, as long as ``num_shards *
        batch_size`` is the same. Raises DatasetError where that cannot be.

        >>> import mpiparallel.dataset as ds
        >>> half = ds.NumpySlicesDataset(np.arange(12), "x", shuffle=False, num_shards=2, shard_id=0).batch(3)
        >>> [batch["x"].tolist() for batch in half.iterate()]
        [[0, 2, 4], [6, 8, 10]]
        >>> [batch["x"].tolist() for batch in half.dealt(3, 0, 2).iterate()]
        [[0, 3], [6, 9]]
        """
        return Dataset(dealt(self._stage, num_shards, shard_id, batch_size))

    def _first(self) -> dict[str, Array]:
        for row in self._read(epoch=0, skip=0):
            return row
        raise DatasetError("output_shapes: the dataset has no row; check take, skip, num_samples and drop_remainder")


def seeds_of(stage: Any) -> tuple[int, ...]:
    """Return the seeds of the stages that draw, from the last stage to the source; a sampler of the user's has none."""
    found = []
    while stage is not None:
        key = stage.order.key if isinstance(stage, RandomAccessStage) else getattr(stage, "_key", None)
        if isinstance(key, RandomKey) and not (isinstance(stage, MapStage) and not stage.is_random):
            found.append(key.seed)
        stage = getattr(stage, "_parent", None)
    return tuple(found)
