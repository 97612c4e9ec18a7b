"""MindSpore's checkpoints, ``.ckpt``.

They tell no layouts. At their end there may be a CRC32 of all before it. Without it, neither a changed byte inside a
tensor can be found, nor that values at the end are missing. Source: ``mindspore.train.serialization`` of MindSpore
2.10.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import Attribute, NamedArrays
from mpiparallel.checkpoint.files.durable_file import write_at
from mpiparallel.checkpoint.files.regular_file import open_regular
from mpiparallel.checkpoint.formats.array_stream import check_name, content_of, in_order, replacing_with
from mpiparallel.checkpoint.formats.extent_file import Extent, ExtentArray, ExtentFile, read_at
from mpiparallel.checkpoint.formats.mindspore_message import (
    OWN_NUMBERS,
    CheckpointValue,
    head_of_value,
    own_number,
    read_values,
)
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import CheckpointError, reason

_DTYPES: dict[str, np.dtype[Any]] = {
    **{
        kind: np.dtype(kind.lower())
        for kind in (
            *("Bool", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"),
            *("Float16", "Float32", "Float64", "Complex64", "Complex128"),
        )
    },
    "BFloat16": np.dtype(bfloat16),
}
# MindSpore writes complex numbers too, but cannot load them again.
_KINDS = {dtype: kind for kind, dtype in _DTYPES.items() if dtype.kind != "c"}
_TEXT = "str"
_LONGEST_TEXT = 1 << 20
_PART = 512 << 20
_BLOCK = 1 << 20
_TAIL = b"crc_num"
_TAIL_LENGTH = len(_TAIL) + 10


class MindsporeCheckpoint(ExtentFile):
    """An open ``.ckpt``; where it has a CRC32, nothing is read before all of it was compared with that."""

    def __init__(
        self,
        path: Path,
        descriptor: int,
        stored: Mapping[str, ExtentArray],
        attributes: Mapping[str, Attribute],
        unchecked: tuple[int, int] | None,
    ) -> None:
        super().__init__(path, descriptor, stored, attributes)
        self._unchecked = unchecked
        self._checking = Lock()

    def fill(self, name: str, first: int, target: NDArray[Any]) -> None:
        """Fill ``target``, 1-D, with the elements of an array from ``first`` on. Raises ``CheckpointError``."""
        self.verify()
        super().fill(name, first, target)

    def verify(self) -> None:
        """Compare all content with the CRC32, if there is one. Raises ``CheckpointError`` where they differ."""
        with self._checking:
            if self._unchecked is None:
                return
            length, expected = self._unchecked
            found = _checksum(self.path, self._descriptor, length)
            if found != expected:
                raise CheckpointError(
                    f"{self.path}: bytes 0 to {length - 1} are damaged (CRC32 {found:08x}, expected {expected:08x}); "
                    "restore the file"
                )
            self._unchecked = None


def open_mindspore_checkpoint(path: Path) -> MindsporeCheckpoint:
    """Open a MindSpore checkpoint. What ``append_dict`` added are its ``attributes`` if texts, else arrays of no dim.

    Attributes are too which rank's slices these are, if the file tells.

    Raises ``CheckpointError`` where it is none, or is damaged as far as that shows before the tensors are read; where
    it has a MapTensor.
    """
    with _translated(path):
        descriptor = open_regular(path)
        try:
            length, expected = _tail(path, descriptor)
            stored: dict[str, ExtentArray] = {}
            attributes: dict[str, Attribute] = {}
            numbers: dict[str, int] = {}
            for first, extents in _tensors(path, read_values(path, descriptor, length, numbers)):
                name = check_name(path, first.tag)
                if name in stored or name in attributes:
                    raise CheckpointError(f'{path}: "{name}" occurs twice; the file is damaged: restore it')
                if first.tensor_type == _TEXT:
                    attributes[name] = _text(path, descriptor, name, extents)
                else:
                    stored[name] = _stored(path, first, extents)
            unchecked = None if expected is None else (length, expected)
            return MindsporeCheckpoint(path, descriptor, stored, {**numbers, **attributes}, unchecked)
        except BaseException:
            os.close(descriptor)
            raise


def write_mindspore_checkpoint(
    path: Path,
    infos: Mapping[str, TensorSpec],
    arrays: NamedArrays,
    attributes: Mapping[str, Attribute],
    crc: bool = True,
) -> None:
    """Replace ``path`` by a MindSpore checkpoint of ``arrays``, which come in the order of ``infos``.

    Attributes become values as those of ``append_dict``: texts, int64, bool, and float32, or float64 where float32 has
    no such number. But MindSpore passes over ``rank`` of ``ranks``, whose slices these are. The mode is that of the
    umask, not 0400 as of MindSpore. MindSpore of before ``crc_check`` reads it only without ``crc``. Raises
    ``CheckpointError``, and then ``path`` is as it was, for what MindSpore has no type for and where the disk is full
    or fails.

    >>> from tempfile import TemporaryDirectory
    >>> from mpiparallel.checkpoint.files.array_file import infos_of, read_array
    >>> arrays = {"net.w1": np.arange(3.0)}
    >>> with TemporaryDirectory() as folder:
    ...     write_mindspore_checkpoint(Path(folder, "one.ckpt"), infos_of(arrays), arrays.items(), {"step": 7})
    ...     with open_mindspore_checkpoint(Path(folder, "one.ckpt")) as file:
    ...         print(list(file.arrays), read_array(file, "net.w1"), read_array(file, "step"))
    ['net.w1', 'step'] [0. 1. 2.] 7
    """
    kinds = {check_name(path, name): _kind(path, name, info) for name, info in infos.items()}
    own = _own_numbers(attributes)
    appended = {
        check_name(path, name): _appended(path, name, value) for name, value in attributes.items() if name not in own
    }
    twice = kinds.keys() & appended.keys()
    if twice:
        raise CheckpointError(f'{path}: "{min(twice)}" names an array and an attribute; rename one of them')
    needed = sum(len(head_of_value(name, info.shape, kinds[name], 0)) + info.byte_count for name, info in infos.items())
    with replacing_with(path, needed) as descriptor:
        file = _Appender(descriptor)
        for name, array in in_order(path, infos, arrays):
            file.append_tensor(name, array.shape, kinds[name], content_of(array))
        for name, (shape, kind, content) in appended.items():
            file.append_tensor(name, shape, kind, memoryview(content))
        for name, number in own.items():
            file.append(memoryview(own_number(name, number)))
        if crc:
            file.append(memoryview(_TAIL + file.checksum.to_bytes(_TAIL_LENGTH - len(_TAIL), "big")))


class _Appender:
    """The end of a file that is being written, and the CRC32 of what is there."""

    def __init__(self, descriptor: int) -> None:
        self.checksum = 0
        self._descriptor = descriptor
        self._end = 0

    def append_tensor(self, name: str, shape: tuple[int, ...], kind: str, content: memoryview) -> None:
        """Append a tensor, in as many values as MindSpore takes for it."""
        for start in range(0, max(1, content.nbytes), _PART):
            part = content[start : start + _PART]
            self.append(memoryview(head_of_value(name, shape, kind, part.nbytes)))
            for first in range(0, part.nbytes, _BLOCK):
                self.append(part[first : first + _BLOCK])

    def append(self, content: memoryview) -> None:
        """Append bytes."""
        self.checksum = zlib.crc32(content, self.checksum)
        write_at(self._descriptor, content, self._end)
        self._end += content.nbytes


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({reason(error)}); give the path of a checkpoint") from error


def _tail(path: Path, descriptor: int) -> tuple[int, int | None]:
    """Return the length of the message and the CRC32 that stands behind it, if any does."""
    length = os.fstat(descriptor).st_size
    if not length:
        raise CheckpointError(f"{path}: is empty; restore the file")
    tail = bytearray(min(length, _TAIL_LENGTH))
    read_at(descriptor, memoryview(tail), length - len(tail))
    if not tail.startswith(_TAIL) or len(tail) < _TAIL_LENGTH:
        return length, None
    return length - _TAIL_LENGTH, int.from_bytes(tail[len(_TAIL) :], "big")


def _checksum(path: Path, descriptor: int, length: int) -> int:
    checksum, block = 0, memoryview(bytearray(_BLOCK))
    with _translated(path):
        for offset in range(0, length, _BLOCK):
            part = block[: length - offset]
            read_at(descriptor, part, offset)
            checksum = zlib.crc32(part, checksum)
    return checksum


def _tensors(path: Path, values: Iterator[CheckpointValue]) -> Iterator[tuple[CheckpointValue, tuple[Extent, ...]]]:
    """Yield the first value of each tensor with the extents of all its values, which follow one another."""
    first: CheckpointValue | None = None
    extents: list[Extent] = []
    for value in values:
        if first and first.tag == value.tag:
            if (value.dims, value.tensor_type) != (first.dims, first.tensor_type):
                raise CheckpointError(f'{path}: the parts of "{first.tag}" differ in dims or type: restore the file')
        else:
            if first:
                yield first, tuple(extents)
            first, extents = value, []
        extents.append(value.content)
    if first:
        yield first, tuple(extents)


def _stored(path: Path, value: CheckpointValue, extents: tuple[Extent, ...]) -> ExtentArray:
    where = f'{path}: tensor "{value.tag}"'
    dtype = _DTYPES.get(value.tensor_type)
    if dtype is None:
        raise CheckpointError(f'{where} has type "{value.tensor_type}"; use one of {", ".join(_DTYPES)}')
    nbytes = sum(extent.nbytes for extent in extents)
    # Old releases wrote the dims of a scalar as [0].
    shape = () if value.dims == (0,) and nbytes == dtype.itemsize else value.dims
    if prod(shape) * dtype.itemsize != nbytes:
        raise CheckpointError(
            f"{where} has {nbytes} bytes, but its {value.tensor_type} {shape} needs {prod(shape) * dtype.itemsize}: "
            "it was cut short, or occurs twice; restore the file"
        )
    return ExtentArray(TensorSpec(shape, dtype), extents)


def _text(path: Path, descriptor: int, name: str, extents: tuple[Extent, ...]) -> str:
    """Return a text of ``append_dict``: NumPy's, four bytes a character."""
    nbytes = sum(extent.nbytes for extent in extents)
    if nbytes > _LONGEST_TEXT or nbytes % 4:
        raise CheckpointError(f'{path}: text "{name}" has {nbytes} bytes, not a multiple of 4 up to {_LONGEST_TEXT}')
    content = bytearray(nbytes)
    position = 0
    for extent in extents:
        read_at(descriptor, memoryview(content)[position : position + extent.nbytes], extent.offset)
        position += extent.nbytes
    try:
        return content.decode("utf-32-le").rstrip("\0")
    except UnicodeDecodeError as error:
        raise CheckpointError(f'{path}: text "{name}" is not UTF-32 ({error}); restore the file') from error


def _kind(path: Path, name: str, info: TensorSpec) -> str:
    if info.dtype not in _KINDS:
        raise CheckpointError(f'{path}: array "{name}" is {info.dtype}; MindSpore has {", ".join(map(str, _KINDS))}')
    if info.shape == (0,):
        raise CheckpointError(f'{path}: array "{name}" is empty, which MindSpore reads as a scalar; leave it out')
    return _KINDS[info.dtype]


def _own_numbers(attributes: Mapping[str, Attribute]) -> dict[str, int]:
    """Return those that are no values for MindSpore: all of them are there, or none."""
    found = {name: value for name in OWN_NUMBERS if isinstance(value := attributes.get(name), int) and value >= 0}
    return found if len(found) == len(OWN_NUMBERS) else {}


def _appended(path: Path, name: str, value: Attribute) -> tuple[tuple[int, ...], str, bytes]:
    """Return dims, type and content of an attribute."""
    try:
        if isinstance(value, str):
            text = (value or "\0").encode("utf-32-le")
            if len(text) > _LONGEST_TEXT:
                raise CheckpointError(
                    f'{path}: attribute "{name}" has {len(value)} characters, over {_LONGEST_TEXT // 4}; shorten it'
                )
            return (0,), _TEXT, text
        dtype = {bool: np.bool_, int: np.int64}.get(type(value), np.float64)
        scalar: NDArray[Any] = np.asarray(value, dtype)
    except (OverflowError, UnicodeEncodeError) as error:
        raise CheckpointError(f'{path}: attribute "{name}" is {value!r}, which MindSpore has no type for') from error
    with np.errstate(over="ignore"):
        narrow = scalar.astype(np.float32)
    if scalar.dtype == np.float64 and (narrow == scalar or scalar != scalar):
        scalar = narrow
    return (), _KINDS[scalar.dtype], scalar.tobytes()
