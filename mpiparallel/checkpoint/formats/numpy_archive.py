"""NumPy's archives, ``.npz``: a ZIP file with one ``.npy`` for each array.

Nothing in them is ever unpickled, nor extracted to a file. ZIP has a CRC32 of each member; it is compared when an array
is read for the first time. Source: the docstring of ``numpy.lib.format``; APPNOTE.TXT of PKWARE.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import Attribute, NamedArrays, info_in, read_array
from mpiparallel.checkpoint.files.regular_file import open_regular
from mpiparallel.checkpoint.formats.array_stream import check_name, content_of, in_order, replacing_with
from mpiparallel.checkpoint.formats.extent_file import ExtentArray, ExtentFile, check_bools, check_span, read_at
from mpiparallel.checkpoint.formats.numpy_header import LONGEST_HEADER, check_dtype, parse_header
from mpiparallel.checkpoint.formats.zip_directory import Member, blocks, check_member_name, read_directory
from mpiparallel.errors import CheckpointError, reason

_SUFFIX = ".npy"
_ATTRIBUTES = "%attributes"
_LONGEST_ATTRIBUTES = 1 << 20
# Of a member: its headers, and its entry in the directory.
_OVERHEAD = 400


class _Item(NamedTuple):
    """Where an array is: ``header`` bytes after the beginning of a member."""

    member: Member
    header: int
    in_fortran_order: bool


class NumpyArchive(ExtentFile):
    """An open ``.npz``. An array in Fortran's order is read whole, and needs its memory twice more meanwhile."""

    def __init__(
        self,
        path: Path,
        descriptor: int,
        infos: Mapping[str, TensorSpec],
        items: Mapping[str, _Item],
    ) -> None:
        super().__init__(path, descriptor, {name: ExtentArray(info, ()) for name, info in infos.items()}, {})
        self._items = items
        self._verified: set[str] = set()

    def fill(self, name: str, first: int, target: NDArray[Any]) -> None:
        """Fill ``target``, 1-D, with the elements of an array from ``first`` on. Raises ``CheckpointError``."""
        info = info_in(self, name)
        check_span(self.path, name, info, first, target)
        item = self._items[name]
        try:
            if item.in_fortran_order:
                whole = np.empty(info.size, info.dtype)
                self._fill_part(item, item.header, whole.view(np.uint8))
                target[:] = whole.reshape(info.shape, order="F").reshape(-1)[first : first + target.size]
            else:
                self._fill_part(item, item.header + first * target.itemsize, target.view(np.uint8))
        except OSError as error:
            raise CheckpointError(f'{self.path}: array "{name}" cannot be read ({error}); restore the file') from error
        check_bools(self.path, name, target)

    def verify(self) -> None:
        """Compare all content with the CRC32 of each member. Raises ``CheckpointError`` where they differ."""
        for item in self._items.values():
            if item.member.name not in self._verified:
                self._fill_part(item, 0, np.empty(0, np.uint8))

    def _fill_part(self, item: _Item, first: int, target: NDArray[np.uint8]) -> None:
        """Fill ``target`` with the bytes of a member from ``first`` on; compare its CRC32 if nobody has yet."""
        member = item.member
        verified = member.name in self._verified
        if verified and not member.deflated:
            read_at(self._descriptor, target.data, member.offset + first)
            return
        checksum, start = 0, 0
        for block in blocks(self.path, self._descriptor, member):
            if verified and start >= first + target.size:
                return
            low, high = max(first, start), min(first + target.size, start + len(block))
            if low < high:
                target[low - first : high - first] = np.frombuffer(block, np.uint8)[low - start : high - start]
            checksum = zlib.crc32(block, checksum)
            start += len(block)
        if checksum != member.checksum:
            raise CheckpointError(
                f'{self.path}: member "{member.name}" is damaged (CRC32 {checksum:08x}, expected '
                f"{member.checksum:08x}); restore the file"
            )
        self._verified.add(member.name)


def open_numpy_archive(path: Path) -> NumpyArchive:
    """Open an ``.npz``, compressed or not, of bool, integers, float or complex in native byte order.

    Raises ``CheckpointError`` where it is none, or where a member is no such array or would be larger than it says.
    """
    try:
        descriptor = open_regular(path)
        try:
            infos: dict[str, TensorSpec] = {}
            items: dict[str, _Item] = {}
            for member in read_directory(path, descriptor):
                name = check_name(path, member.name.removesuffix(_SUFFIX))
                if name == member.name or name in infos:
                    raise CheckpointError(f'{path}: member "{member.name}" is no {_SUFFIX}, or is there twice')
                infos[name], items[name] = _described(path, descriptor, member)
            archive = NumpyArchive(path, descriptor, infos, items)
            if _ATTRIBUTES in infos:
                archive.attributes = _attributes(archive)
                archive.arrays = {name: info for name, info in infos.items() if name != _ATTRIBUTES}
            return archive
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({reason(error)}); give the path of an .npz") from error


def write_numpy_archive(
    path: Path, infos: Mapping[str, TensorSpec], arrays: NamedArrays, attributes: Mapping[str, Attribute]
) -> None:
    """Replace ``path`` by an uncompressed ``.npz`` of ``arrays``, which come in the order of ``infos``.

    Attributes are JSON in one more array, ``%attributes``, of uint8. Raises ``CheckpointError``, and then ``path`` is
    as it was, for dtypes that it would not read and where the disk is full or fails.

    >>> from tempfile import TemporaryDirectory
    >>> from mpiparallel.checkpoint.files.array_file import infos_of
    >>> arrays = {"net.w1": np.arange(3.0)}
    >>> with TemporaryDirectory() as folder:
    ...     write_numpy_archive(Path(folder, "one.npz"), infos_of(arrays), arrays.items(), {"step": 7})
    ...     with open_numpy_archive(Path(folder, "one.npz")) as file:
    ...         print(file.attributes, read_array(file, "net.w1"))
    {'step': 7} [0. 1. 2.]
    """
    for name, info in infos.items():
        check_dtype(f'{path}: array "{check_name(path, name)}"', info.dtype)
        check_member_name(f'{path}: array "{name}"', name + _SUFFIX)
        if name == _ATTRIBUTES:
            raise CheckpointError(f'{path}: "{name}" is the name for the attributes; rename the array')
    text = np.frombuffer(json.dumps(dict(attributes)).encode(), np.uint8)
    if text.size > _LONGEST_ATTRIBUTES:
        raise CheckpointError(f"{path}: the attributes have {text.size} bytes, more than {_LONGEST_ATTRIBUTES}")
    needed = sum(_OVERHEAD + 2 * len(name.encode()) + info.byte_count for name, info in infos.items()) + text.size
    with (
        replacing_with(path, needed) as descriptor,
        os.fdopen(os.dup(descriptor), "wb") as file,
        ZipFile(file, "w") as archive,
    ):
        for name, array in in_order(path, infos, arrays):
            _write_array(archive, name, array)
        if attributes:
            _write_array(archive, _ATTRIBUTES, text)


def _described(path: Path, descriptor: int, member: Member) -> tuple[TensorSpec, _Item]:
    where = f'{path}: member "{member.name}"'
    content = next(blocks(path, descriptor, member, 2 * LONGEST_HEADER), b"")
    info, in_fortran_order, length = parse_header(where, content)
    if length + info.byte_count != member.size:
        raise CheckpointError(
            f"{where} has {member.size - length} bytes, but its {info.dtype} {info.shape} needs {info.byte_count}; "
            "restore it"
        )
    return info, _Item(member, length, in_fortran_order)


def _attributes(archive: NumpyArchive) -> dict[str, Attribute]:
    info = archive.arrays[_ATTRIBUTES]
    if info.dtype != np.uint8 or info.size > _LONGEST_ATTRIBUTES:
        raise CheckpointError(f"{archive.path}: its attributes are {info.dtype} {info.shape}; restore the file")
    try:
        found = json.loads(read_array(archive, _ATTRIBUTES).tobytes())
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{archive.path}: its attributes are no JSON ({error}); restore the file") from error
    if not isinstance(found, dict) or not all(isinstance(value, str | int | float) for value in found.values()):
        raise CheckpointError(f"{archive.path}: its attributes are no texts and numbers; restore the file")
    return found


def _write_array(archive: ZipFile, name: str, array: NDArray[Any]) -> None:
    # The earliest date that ZIP knows: equal arrays make equal files.
    with archive.open(ZipInfo(name + _SUFFIX), "w", force_zip64=True) as member:
        descr = npy.dtype_to_descr(array.dtype)
        npy.write_array_header_1_0(member, {"descr": descr, "fortran_order": False, "shape": array.shape})
        member.write(content_of(array))
