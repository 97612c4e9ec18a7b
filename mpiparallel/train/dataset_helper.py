"""A dataset as training loops of one's own take it: MindSpore's ``DatasetHelper``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np

from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.dataset.dataset import Dataset
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell

TensorBatch = tuple[Tensor, ...]


class DatasetHelper:
    """The batches of a dataset, an epoch in each ``for`` loop.

    Parameters
    ----------
    dataset : Dataset
        Batched.
    dataset_sink_mode : bool
        Without it a loop yields each batch, a tuple of tensors. With it, it yields ``()`` for each of ``sink_size``
        batches, and the network of ``connect_network_with_dataset`` takes the batches itself, from epoch to epoch.
    sink_size : int
        -1 for all of an epoch.
    epoch_num : int
        MindSpore's; limits nothing, as a remark says.

    Raises
    ------
    ConfigurationError
        For what is no dataset or no size.

    Examples
    --------
    >>> from mpiparallel.dataset import NumpySlicesDataset
    >>> data = NumpySlicesDataset(np.arange(4.0), ["x"], shuffle=False).batch(2)
    >>> [batch.asnumpy().tolist() for batch, in DatasetHelper(data, dataset_sink_mode=False)]
    [[0.0, 1.0], [2.0, 3.0]]
    """

    def __init__(
        self, dataset: Dataset, dataset_sink_mode: bool = True, sink_size: int = -1, epoch_num: int = 1
    ) -> None:
        if not isinstance(dataset, Dataset):
            raise ConfigurationError(f"DatasetHelper: dataset is a {type(dataset).__name__}; give one of dataset")
        if not isinstance(dataset_sink_mode, bool):
            raise ConfigurationError(f"DatasetHelper: dataset_sink_mode {dataset_sink_mode!r} must be True or False")
        for name, size in (("sink_size", sink_size), ("epoch_num", epoch_num)):
            if type(size) is not int or size == 0 or size < -1:
                raise ConfigurationError(f"DatasetHelper: {name} {size!r} must be -1 or an integer of at least 1")
        no_effect("DatasetHelper", "epoch_num", epoch_num, "each loop is an epoch, however many there are", default=1)
        self.dataset = dataset
        self.dataset_sink_mode = dataset_sink_mode
        self._sink_size = sink_size
        self._epoch = 0
        self._sunk = self._all_batches()

    def __iter__(self) -> Iterator[TensorBatch]:
        if self.dataset_sink_mode:
            return iter([()] * self.sink_size())
        self._epoch += 1
        return self._batches(self._epoch - 1)

    def sink_size(self) -> int:
        """Return how many batches a loop stands for."""
        whole = self.dataset.get_dataset_size()
        return whole if self._sink_size == -1 or not self.dataset_sink_mode else self._sink_size

    def types_shapes(self) -> tuple[list[np.dtype[Any]], list[list[int]]]:
        """Return dtype and shape of each column of a batch."""
        return self.dataset.output_types(), self.dataset.output_shapes()

    def take(self) -> TensorBatch:
        """Return the next batch for a connected network."""
        return next(self._sunk)

    def stop_send(self) -> None:
        """Let go of what was read ahead."""
        self._sunk = self._all_batches()

    def continue_send(self) -> None:
        """Return: reading goes on whenever a batch is taken."""

    def release(self) -> None:
        """Let go of what was read ahead."""
        self.stop_send()

    def _all_batches(self) -> Iterator[TensorBatch]:
        for epoch in count():
            yield from self._batches(epoch)

    def _batches(self, epoch: int) -> Iterator[TensorBatch]:
        for row in self.dataset.iterate(epoch):
            yield tuple(Tensor(column) for column in row.values())


class _Connected(Cell):
    """A network that takes its inputs from a dataset."""

    def __init__(self, network: Cell, helper: DatasetHelper) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self._helper = helper

    def __call__(self, *inputs: Any) -> Any:
        return self.network(*(inputs or self._helper.take()))


def connect_network_with_dataset(network: Cell, dataset_helper: DatasetHelper) -> Cell:
    """Return a cell that, called without inputs, runs a network on the next batch of a dataset.

    Parameters
    ----------
    network : Cell
        Its parameters are those of the cell.
    dataset_helper : DatasetHelper
        In sink mode.

    Returns
    -------
    Cell
        It returns what ``network`` returns.

    Raises
    ------
    ConfigurationError
        Unless the helper is in sink mode.

    Examples
    --------
    >>> from mpiparallel import nn
    >>> from mpiparallel.dataset import NumpySlicesDataset
    >>> helper = DatasetHelper(NumpySlicesDataset(np.arange(4.0), ["x"], shuffle=False).batch(2))
    >>> network = connect_network_with_dataset(nn.ReLU(), helper)
    >>> [network(*nothing).asnumpy().tolist() for nothing in helper]
    [[0.0, 1.0], [2.0, 3.0]]
    """
    if not isinstance(dataset_helper, DatasetHelper) or not dataset_helper.dataset_sink_mode:
        raise ConfigurationError(
            "connect_network_with_dataset: give a DatasetHelper in sink mode; without, give each batch to the network"
        )
    return _Connected(network, dataset_helper)
