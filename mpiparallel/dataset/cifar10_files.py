"""The files of CIFAR-10 (Krizhevsky, 2009), its binary archive and its Python one: found, checked, read and written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mpiparallel.dataclass import dataclass
from mpiparallel.dataset.array_unpickler import read_pickled_dict
from mpiparallel.errors import DatasetError

TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST = ("test_batch",)
CLASSES = 10
_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE
_RECORD = 1 + _PIXELS
_BINARY_FOLDER, _PYTHON_FOLDER = "cifar-10-batches-bin", "cifar-10-batches-py"
_USAGES = {"train": TRAIN, "test": TEST, "all": TRAIN + TEST}
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Cifar10File:
    """The n samples of one file: ``pixels`` (n, 3072) uint8, red, green, blue plane by row; ``labels`` (n,) uint8."""

    pixels: Bytes
    labels: Bytes

    def __len__(self) -> int:
        return len(self.labels)

    def image(self, index: int) -> Bytes:
        """Return image ``index``, a new array of shape (32, 32, 3), uint8."""
        planes = np.array(self.pixels[index], subok=False).reshape(3, _SIDE, _SIDE)
        return np.ascontiguousarray(planes.transpose(1, 2, 0))


def read_cifar10(folder: Path, usage: str | None) -> list[Cifar10File]:
    """Return the files for ``usage`` of the archive in ``folder``, or in the folder of an archive inside it.

    Raises:
        DatasetError: if ``usage`` is not known, a file is missing, or a file is not one of CIFAR-10.
    """
    if usage is not None and usage not in _USAGES:
        raise DatasetError(f'Cifar10Dataset: usage is {usage!r}; give "train", "test", "all" or None')
    place, suffix = _find(folder)
    wanted = _present(place, suffix) if usage is None else _USAGES[usage]
    paths = [place / f"{stem}{suffix}" for stem in wanted]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise DatasetError(
            f"{place}: {', '.join(missing)} is missing; unpack the whole archive there, or choose another usage"
        )
    return [_read_binary(path) if suffix else _read_pickle(path) for path in paths]


def write_cifar10(folder: Path, stem: str, images: Bytes, labels: Bytes) -> None:
    """Write images (n, 32, 32, 3) and labels (n,) as the binary file ``stem`` in ``folder``; it appears complete.

    Raises:
        DatasetError: if images or labels are no bytes, a file of that name with other content is there, or the folder
            cannot be written to.
    """
    if images.dtype != np.uint8 or labels.dtype != np.uint8:
        raise DatasetError(f"{stem}: images are {images.dtype} and labels {labels.dtype}; give both as uint8")
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), _PIXELS)
    content = np.concatenate([labels.reshape(-1, 1), planes], axis=1).tobytes()
    path = folder / f"{stem}.bin"
    try:
        if path.exists():
            if path.read_bytes() == content:
                return
            raise DatasetError(f"{path}: holds other samples, which would be lost; give an empty folder")
        folder.mkdir(parents=True, exist_ok=True)
        # Every rank may write: each has a file of its own until it is whole.
        partial = folder / f".{path.name}.{os.urandom(16).hex()}"
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise DatasetError(f"{path}: cannot be written ({error.strerror}); give a folder of your own") from error


def _find(folder: Path) -> tuple[Path, str]:
    """Return the folder of the files, and the suffix of their names."""
    places = (
        (folder, ".bin"),
        (folder, ""),
        (folder / _BINARY_FOLDER, ".bin"),
        (folder / _PYTHON_FOLDER, ""),
    )
    for place, suffix in places:
        if any((place / f"{stem}{suffix}").is_file() for stem in _USAGES["all"]):
            return place, suffix
    raise DatasetError(
        f"{folder}: holds no CIFAR-10; looked there and in {_BINARY_FOLDER} for data_batch_1.bin to data_batch_5.bin "
        f"and test_batch.bin, there and in {_PYTHON_FOLDER} for data_batch_1 to data_batch_5 and test_batch; unpack "
        "cifar-10-binary.tar.gz or cifar-10-python.tar.gz there, or give the folder that holds them"
    )


def _present(place: Path, suffix: str) -> tuple[str, ...]:
    """Return the names of the half that is there, or of both halves."""
    halves = (half for half in (TRAIN, TEST) if any((place / f"{stem}{suffix}").is_file() for stem in half))
    return tuple(stem for half in halves for stem in half)


def _read_binary(path: Path) -> Cifar10File:
    size = path.stat().st_size
    if size == 0 or size % _RECORD:
        raise DatasetError(
            f"{path}: has {size} bytes, which are no whole number of records of {_RECORD}; CIFAR-10's own file has "
            "30730000; unpack or download the archive again"
        )
    # Ranks of one machine share the pages of a mapped file; a copy for each would be 180 MB.
    try:
        records = np.memmap(path, dtype=np.uint8, mode="r", shape=(size // _RECORD, _RECORD))
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    return Cifar10File(records[:, 1:], _checked_labels(path, np.array(records[:, 0], subok=False)))


def _read_pickle(path: Path) -> Cifar10File:
    loaded = read_pickled_dict(path)
    pixels, labels = loaded.get("data"), loaded.get("labels")
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape[1:] != (_PIXELS,):
        found = f"{pixels.dtype} {pixels.shape}" if isinstance(pixels, np.ndarray) else type(pixels).__name__
        raise DatasetError(
            f'{path}: "data" is {found}, not uint8 (samples, {_PIXELS}); take the file from cifar-10-python.tar.gz'
        )
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
        raise DatasetError(
            f'{path}: "labels" is a {type(labels).__name__}, not a list of integers; '
            "take the file from cifar-10-python.tar.gz"
        )
    if not len(labels) == len(pixels) > 0:
        raise DatasetError(
            f"{path}: has {len(labels)} labels for {len(pixels)} images, not one for each; "
            "take the file from cifar-10-python.tar.gz"
        )
    return Cifar10File(pixels, _checked_labels(path, np.array(labels)))


def _checked_labels(path: Path, labels: npt.NDArray[Any]) -> Bytes:
    if labels.dtype.kind not in "iu":
        raise DatasetError(f"{path}: the labels are {labels.dtype}, not integers from 0 to 9; download it again")
    wrong = np.flatnonzero((labels < 0) | (labels >= CLASSES))
    if wrong.size:
        raise DatasetError(
            f"{path}: the label of sample {wrong[0]} is {labels[wrong[0]]}; labels are 0 to 9; is it CIFAR-10 (not "
            "CIFAR-100), and whole? download it again"
        )
    return labels.astype(np.uint8)
