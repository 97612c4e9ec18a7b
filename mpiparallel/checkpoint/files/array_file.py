"""Files of named arrays: what the shards of mpiparallel and the files of others have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.box import Box

Attribute = str | int | float
NamedArrays = Iterable[tuple[str, NDArray[Any]]]

_PORTION_BYTES: Final = 8 << 20


class ArrayFile(Protocol):
    """An open file of named arrays, checked as far as that needs no array to be read.

    ``arrays`` says what is in it, ``attributes`` what else it tells. What is read is what was written, as far as the
    format has digests.
    """

    @property
    def path(self) -> Path:
        """Where the file is."""

    @property
    def arrays(self) -> Mapping[str, TensorSpec]:
        """Shape and dtype of each array, by name."""

    @property
    def attributes(self) -> Mapping[str, Attribute]:
        """Texts and numbers that the file tells besides."""

    def fill(self, name: str, first: int, target: NDArray[Any]) -> None:
        """Fill ``target``, 1-D, contiguous and of the array's dtype, with its elements from ``first`` on, in C order.

        Raises CheckpointError where those are damaged or are not there.
        """

    def close(self) -> None:
        """Close the file."""

    def __enter__(self) -> ArrayFile: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


def info_of(array: NDArray[Any]) -> TensorSpec:
    """Return shape and dtype of an array in memory."""
    return TensorSpec(array.shape, array.dtype)


def infos_of(arrays: Mapping[str, NDArray[Any]]) -> dict[str, TensorSpec]:
    """Return shape and dtype of each array."""
    # Most arrays are of few shapes, and what is alike is worked out once.
    known: dict[tuple[tuple[int, ...], np.dtype[Any]], TensorSpec] = {}
    found = {}
    for name, array in arrays.items():
        alike = array.shape, array.dtype
        if alike not in known:
            known[alike] = info_of(array)
        found[name] = known[alike]
    return found


def read_array(file: ArrayFile, name: str) -> NDArray[Any]:
    """Return an array of a file. Raises CheckpointError if it has none of that name, or a damaged one."""
    info = info_in(file, name)
    array = np.empty(info.shape, info.dtype)
    file.fill(name, 0, array.reshape(-1))
    return array


def read_box(file: ArrayFile, name: str, box: Box) -> NDArray[Any]:
    """Return the elements of ``box`` of an array of a file; of the outer dims only what is needed is read."""
    info = info_in(file, name)
    if not Box.whole(info.shape).contains(box):
        raise CheckpointError(f'{file.path}: array "{name}" has shape {info.shape}, so there is no {box} in it')
    target = np.empty(box.shape, info.dtype)
    fill_box(file, name, info.shape, box, target)
    return target


def fill_box(
    file: ArrayFile, name: str, shape: tuple[int, ...], box: Box, target: NDArray[Any], first: int = 0
) -> None:
    """Fill ``target``, of any strides, with the elements of ``box`` of an array of ``shape``.

    Where inner dims are not wanted whole, all of them is read, a portion at a time. With ``first`` it is the part of an
    array that begins at that element.
    """
    if box.empty:
        return
    row = prod(shape[1:])
    if not shape or (box.shape[1:] == shape[1:] and target.flags.c_contiguous):
        begin = box.start[0] * row if shape else 0
        file.fill(name, first + begin, target.reshape(-1))
        return
    inner = Box(box.start[1:], box.stop[1:])
    at_once = _PORTION_BYTES // (row * target.dtype.itemsize)
    for begin in range(box.start[0], box.stop[0], max(1, at_once)):
        end = min(begin + max(1, at_once), box.stop[0])
        here = target[begin - box.start[0] : end - box.start[0]]
        if at_once:
            cover = np.empty((end - begin, *shape[1:]), target.dtype)
            file.fill(name, first + begin * row, cover.reshape(-1))
            here[...] = cover[(slice(None), *inner.within(Box.whole(shape[1:])))]
            del cover  # before the next one is made
        else:
            fill_box(file, name, shape[1:], inner, here[0, ...], first + begin * row)


def info_in(file: ArrayFile, name: str) -> TensorSpec:
    """Return shape and dtype of an array of a file. Raises CheckpointError if it has none of that name."""
    if name not in file.arrays:
        known = sorted(file.arrays)
        shown = ", ".join(known[:8]) + (f" and {len(known) - 8} more" if len(known) > 8 else "")
        raise CheckpointError(f'{file.path}: has no array "{name}"; it has {shown or "none"}')
    return file.arrays[name]
