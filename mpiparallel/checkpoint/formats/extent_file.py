"""Files in which each array lies as plain bytes, in one extent or in several."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import Attribute, info_in
from mpiparallel.errors import CheckpointError


class Extent(NamedTuple):
    """Bytes of a file that follow one another."""

    offset: int
    nbytes: int


class ExtentArray(NamedTuple):
    """An array in a file: its elements in C order, little-endian, over all extents."""

    info: TensorSpec
    extents: tuple[Extent, ...]


class ExtentFile:
    """An ``ArrayFile`` whose arrays are at known places; it owns ``descriptor``. Several threads may fill at once."""

    def __init__(
        self, path: Path, descriptor: int, stored: Mapping[str, ExtentArray], attributes: Mapping[str, Attribute]
    ) -> None:
        self.path = path
        self.arrays: Mapping[str, TensorSpec] = {name: item.info for name, item in stored.items()}
        self.attributes = attributes
        self._descriptor = descriptor
        self._stored = stored

    def fill(self, name: str, first: int, target: NDArray[Any]) -> None:
        """Fill ``target``, 1-D, with the elements of an array from ``first`` on. Raises ``CheckpointError``."""
        check_span(self.path, name, info_in(self, name), first, target)
        stored = self._stored[name]
        self._fill_bytes(name, stored.extents, first * target.itemsize, target.view(np.uint8))
        check_bools(self.path, name, target)

    def verify(self) -> None:
        """Compare all content with the digests that the format has. Raises ``CheckpointError`` where they differ."""

    def close(self) -> None:
        """Close the file. Closing it again does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> ExtentFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _fill_bytes(self, name: str, extents: tuple[Extent, ...], first: int, target: NDArray[np.uint8]) -> None:
        for extent in _part(extents, first, target.nbytes):
            try:
                read_at(self._descriptor, target[: extent.nbytes].data, extent.offset)
            except OSError as error:
                raise CheckpointError(
                    f'{self.path}: array "{name}": the {extent.nbytes} bytes at {extent.offset} cannot be read '
                    f"({error}); restore the file"
                ) from error
            target = target[extent.nbytes :]


def check_span(path: Path, name: str, info: TensorSpec, first: int, target: NDArray[Any]) -> None:
    """Raise ``CheckpointError`` unless ``target`` can take elements of an array from ``first`` on."""
    if target.ndim != 1 or not target.flags.c_contiguous or target.dtype != info.dtype:
        raise CheckpointError(
            f'{path}: array "{name}" has dtype {info.dtype}, which cannot fill a {target.ndim}-D {target.dtype}; '
            "give a contiguous 1-D array"
        )
    if first < 0 or first + target.size > info.size:
        raise CheckpointError(
            f'{path}: array "{name}" has {info.size} elements, so not {target.size} from {first} on; ask for fewer'
        )


def check_bools(path: Path, name: str, target: NDArray[Any]) -> None:
    """Raise ``CheckpointError`` where a bool is neither 0 nor 1: NumPy would compute with such bytes."""
    if target.dtype == np.bool_ and target.size and target.view(np.uint8).max() > 1:
        raise CheckpointError(f'{path}: array "{name}" has bools that are neither 0 nor 1; restore the file')


def read_at(descriptor: int, target: memoryview, offset: int) -> None:
    """Fill ``target`` with the bytes from ``offset`` on. Raises ``OSError``, also where the file ends before."""
    while target.nbytes:
        count = os.preadv(descriptor, [target], offset)
        if not count:
            raise OSError(f"the file ends at {offset}")
        target, offset = target[count:], offset + count


def _part(extents: tuple[Extent, ...], first: int, nbytes: int) -> Iterator[Extent]:
    """Yield where the ``nbytes`` bytes from ``first`` on of all extents together are."""
    for offset, length in extents:
        count = min(nbytes, length - first)
        if count > 0:
            yield Extent(offset + first, count)
            nbytes -= count
        first = max(0, first - length)
