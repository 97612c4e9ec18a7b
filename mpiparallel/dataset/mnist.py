"""A dataset of the images of MNIST."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.dataset import config
from mpiparallel.dataset.dataset import Dataset
from mpiparallel.dataset.source import RandomAccessStage, RowReader, sample_order
from mpiparallel.dataset.synthetic_data import StandIn, is_absent
from mpiparallel.dataset.worker_arguments import remark_on_workers
from mpiparallel.errors import DatasetError

_NAME: Final = "MnistDataset"
_HALVES: Final = {"train": "train", "test": "t10k"}
_IMAGES, _LABELS = ("images", 3), ("labels", 1)
_BYTES: Final = 8
_CLASSES: Final = 10
_COUNTS: Final[dict[str | None, int]] = {"train": 60_000, "test": 10_000}
_COLUMNS: Final = (TensorSpec((28, 28, 1), np.dtype(np.uint8)), TensorSpec((), np.dtype(np.uint32)))

Bytes = npt.NDArray[np.uint8]


class MnistDataset(Dataset):
    """Reads MNIST: column ``image``, (28, 28, 1) uint8, and ``label``, a uint32. Images may be of another size.

    Parameters
    ----------
    dataset_dir : str or Path
        It holds train-images-idx3-ubyte and train-labels-idx1-ubyte, and t10k-images-idx3-ubyte and
        t10k-labels-idx1-ubyte, unpacked.
    usage : {"train", "test", "all"}, optional
        The first two, the others, or both; None reads what is there.
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
        If a file is missing, or is not what its name says, or parameters contradict.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     images, labels = (Path(folder) / f"t10k-{name}-ubyte" for name in ("images-idx3", "labels-idx1"))
    ...     _ = images.write_bytes(bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28]) + bytes(28 * 28))
    ...     _ = labels.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 1, 5]))
    ...     [(row["image"].shape, row["label"].item()) for row in MnistDataset(folder).iterate()]
    [((28, 28, 1), 5)]
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
            else _MnistSamples(*_read(Path(dataset_dir), usage))
        )
        seed = config.get_seed()
        order = sample_order(_NAME, len(samples), seed, shuffle, sampler, num_shards, shard_id, num_samples)
        super().__init__(RandomAccessStage(RowReader(_NAME, ("image", "label")), samples, order))


class _MnistSamples:
    def __init__(self, images: Bytes, labels: Bytes) -> None:
        self._images, self._labels = images, labels

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[Bytes, np.uint32]:
        return self._images[index][..., np.newaxis].copy(), np.uint32(self._labels[index])


def _read(folder: Path, usage: str | None) -> tuple[Bytes, Bytes]:
    if usage not in (None, "all", *_HALVES):
        raise DatasetError(f'{_NAME}: usage is {usage!r}; give "train", "test", "all" or None')
    present = [half for half, stem in _HALVES.items() if _path(folder, stem, _IMAGES).is_file()]
    wanted = [usage] if usage in _HALVES else present
    if not wanted or (usage == "all" and len(present) < len(_HALVES)):
        names = ", ".join(_path(folder, stem, kind).name for stem in _HALVES.values() for kind in (_IMAGES, _LABELS))
        raise DatasetError(f"{folder}: holds no whole MNIST; unpack there {names}, or name the folder that has them")
    halves = [_half(folder, _HALVES[half]) for half in wanted if half is not None]
    return np.concatenate([images for images, _ in halves]), np.concatenate([labels for _, labels in halves])


def _half(folder: Path, stem: str) -> tuple[Bytes, Bytes]:
    images, labels = (_idx(_path(folder, stem, kind), kind[1]) for kind in (_IMAGES, _LABELS))
    where = _path(folder, stem, _LABELS)
    if len(images) != len(labels):
        raise DatasetError(f"{where}: has {len(labels)} labels for {len(images)} images; unpack both files anew")
    if labels.size and labels.max() >= _CLASSES:
        raise DatasetError(f"{where}: has the label {labels.max()}; labels are 0 to 9; is it MNIST? unpack it anew")
    return images, labels


def _path(folder: Path, stem: str, kind: tuple[str, int]) -> Path:
    return folder / f"{stem}-{kind[0]}-idx{kind[1]}-ubyte"


def _idx(path: Path, dims: int) -> npt.NDArray[Any]:
    """Return the array in a file of LeCun's IDX format: unsigned bytes of so many dims."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror}); unpack the archive of MNIST there") from error
    start = 4 + 4 * dims
    if len(content) < start or content[:4] != bytes((0, 0, _BYTES, dims)):
        raise DatasetError(f"{path}: does not begin as an IDX file of {dims} dims; unpack it, if it is compressed")
    shape = struct.unpack(f">{dims}I", content[4:start])
    if len(content) - start != np.prod(shape, dtype=object):
        raise DatasetError(f"{path}: has {len(content) - start} bytes, not {shape}; unpack it anew")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
