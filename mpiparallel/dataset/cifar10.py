"""A dataset of the images of CIFAR-10."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dataset import config
from mpiparallel.dataset.cifar10_files import Bytes, Cifar10File, read_cifar10
from mpiparallel.dataset.dataset import Dataset
from mpiparallel.dataset.source import RandomAccessStage, RowReader, sample_order
from mpiparallel.dataset.synthetic_data import StandIn, is_absent
from mpiparallel.dataset.worker_arguments import remark_on_workers

_NAME = "Cifar10Dataset"
_COUNTS: Final[dict[str | None, int]] = {"train": 50_000, "test": 10_000}
_COLUMNS: Final = (TensorSpec((32, 32, 3), np.dtype(np.uint8)), TensorSpec((), np.dtype(np.uint32)))


class Cifar10Dataset(Dataset):
    """Reads CIFAR-10: column ``image``, (32, 32, 3) uint8 in the order red, green, blue, and ``label``, a uint32.

    Binary files are mapped, not loaded. Pickles are loaded by every rank, 31 MB each, and can name nothing but NumPy's
    arrays. A file may have fewer samples than CIFAR-10's 10,000.

    Parameters
    ----------
    dataset_dir : str or Path
        It holds data_batch_1.bin to data_batch_5.bin and test_batch.bin (the binary archive), or the same names without
        ``.bin`` (the Python archive). They may lie in a folder cifar-10-batches-bin or else cifar-10-batches-py.
    usage : {"train", "test", "all"}, optional
        The five files, the one, or all six; None reads the half that is there, or both.
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
    cache : object, optional
        MindSpore's; changes nothing, as a remark says.

    Raises
    ------
    DatasetError
        If a file is missing, of a wrong size or with a label above 9, or parameters contradict.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "test_batch.bin").write_bytes(bytes([7]) + bytes(3 * 32 * 32))
    ...     [row["label"].item() for row in Cifar10Dataset(folder, usage="test").iterate()]
    [7]
    """

    def __init__(
        self,
        dataset_dir: str | Path,
        usage: str | None = None,
        num_samples: int | None = None,
        num_parallel_workers: int | None = None,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        num_shards: int | None = None,
        shard_id: int | None = None,
        cache: object = None,
    ) -> None:
        remark_on_workers(_NAME, num_parallel_workers=num_parallel_workers, cache=cache)
        samples = (
            StandIn(_COUNTS.get(usage, sum(_COUNTS.values())), _COLUMNS)
            if is_absent(dataset_dir)
            else _Cifar10Samples(read_cifar10(Path(dataset_dir), usage))
        )
        order = sample_order(
            _NAME, len(samples), config.get_seed(), shuffle, sampler, num_shards, shard_id, num_samples
        )
        super().__init__(RandomAccessStage(RowReader(_NAME, ("image", "label")), samples, order))


class _Cifar10Samples:
    """The samples of several files as one sequence."""

    def __init__(self, files: list[Cifar10File]) -> None:
        self._files = files
        self._stops = list(accumulate(len(file) for file in files))

    def __len__(self) -> int:
        return self._stops[-1]

    def __getitem__(self, index: int) -> tuple[Bytes, np.uint32]:
        position = bisect_right(self._stops, index)
        file = self._files[position]
        local = index - (self._stops[position] - len(file))
        return file.image(local), np.uint32(file.labels[local])
