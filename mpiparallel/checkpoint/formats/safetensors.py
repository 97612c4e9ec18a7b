"""Files of the safetensors format: the length of a header as 8 bytes, the header in JSON, then all arrays.

The format has no digests, so a changed byte inside an array cannot be found.
Source: https://github.com/huggingface/safetensors, section Format, and what its own reader refuses.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import Attribute, NamedArrays
from mpiparallel.checkpoint.files.durable_file import write_at
from mpiparallel.checkpoint.files.regular_file import open_regular
from mpiparallel.checkpoint.formats.array_stream import check_name, content_of, in_order, replacing_with
from mpiparallel.checkpoint.formats.extent_file import Extent, ExtentArray, ExtentFile, read_at
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import CheckpointError, reason

_DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    **{f"{sign}{8 * size}": np.dtype(f"{sign.lower()}{size}") for sign in "IU" for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"f{size}") for size in (2, 4, 8)},
    "BF16": np.dtype(bfloat16),
    "C64": np.dtype(np.complex64),
}
_KINDS = {dtype: kind for kind, dtype in _DTYPES.items()}
_NAMES = ", ".join(map(str, _KINDS))
_METADATA = "__metadata__"
_FIELDS = {"dtype", "shape", "data_offsets"}
_LONGEST_HEADER = 100_000_000
# Python needs up to 64 bytes for one: 8 a tensor, and a million tensors.
_MOST_JSON_VALUES = 1 << 23
_MOST_DIMS = 32
_MOST_BYTES = 1 << 62


def open_safetensors(path: Path) -> ExtentFile:
    """Open a safetensors file; the texts of its ``__metadata__`` are its ``attributes``.

    Raises ``CheckpointError`` where it is none or breaks a rule of the format, and for float8 and smaller types. By the
    rules the arrays follow one another in the order of their offsets, without holes, up to the end.
    """
    try:
        descriptor = open_regular(path)
        try:
            start, header = _header(path, descriptor)
            length = os.fstat(descriptor).st_size - start
            attributes = _attributes(path, header.pop(_METADATA, {}))
            stored = {
                check_name(path, name): _stored(path, name, entry, start, length) for name, entry in header.items()
            }
            _check_cover(path, stored, start, length)
            return ExtentFile(path, descriptor, stored, attributes)
        except BaseException:
            os.close(descriptor)
            raise
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({reason(error)}); give a safetensors file") from error


def write_safetensors(
    path: Path, infos: Mapping[str, TensorSpec], arrays: NamedArrays, attributes: Mapping[str, Attribute]
) -> None:
    """Replace ``path`` by a safetensors file of ``arrays``, which come in the order of ``infos``.

    Attributes become texts of its ``__metadata__``. The arrays of the largest elements come first, so that each is
    aligned. Raises ``CheckpointError``, and then ``path`` is as it was, for what the format has no type for and where
    the disk is full or fails.

    >>> from tempfile import TemporaryDirectory
    >>> from mpiparallel.checkpoint.files.array_file import infos_of, read_array
    >>> arrays = {"net.w1": np.arange(3.0)}
    >>> with TemporaryDirectory() as folder:
    ...     write_safetensors(Path(folder, "one.safetensors"), infos_of(arrays), arrays.items(), {"step": 7})
    ...     with open_safetensors(Path(folder, "one.safetensors")) as file:
    ...         print(file.attributes, read_array(file, "net.w1"))
    {'step': '7'} [0. 1. 2.]
    """
    entries: dict[str, Any] = {}
    if attributes:
        entries[_METADATA] = {check_name(path, name): str(value) for name, value in attributes.items()}
    offsets, end = {}, 0
    for name, info in sorted(infos.items(), key=lambda item: -item[1].dtype.itemsize):
        if info.dtype not in _KINDS:
            raise CheckpointError(f'{path}: array "{name}" is {info.dtype}; safetensors has {_NAMES}')
        if check_name(path, name) == _METADATA:
            raise CheckpointError(f'{path}: no array of safetensors can be called "{name}"; rename it')
        offsets[name], end = end, end + info.byte_count
        entries[name] = {"dtype": _KINDS[info.dtype], "shape": info.shape, "data_offsets": (offsets[name], end)}
    try:
        header = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise CheckpointError(f"{path}: an attribute has a text that is no Unicode ({error})") from error
    header = header.ljust(-(-len(header) // 8) * 8)
    if len(header) > _LONGEST_HEADER:
        raise CheckpointError(f"{path}: needs a header of {len(header)} bytes; at most {_LONGEST_HEADER} can be")
    start = 8 + len(header)
    with replacing_with(path, start + end) as descriptor:
        write_at(descriptor, memoryview(len(header).to_bytes(8, "little") + header), 0)
        for name, array in in_order(path, infos, arrays):
            write_at(descriptor, content_of(array), start + offsets[name])


def _header(path: Path, descriptor: int) -> tuple[int, dict[str, Any]]:
    """Return where the arrays begin, and the header."""
    length = os.fstat(descriptor).st_size
    prefix = bytearray(min(8, length))
    read_at(descriptor, memoryview(prefix), 0)
    size = int.from_bytes(prefix, "little")
    if len(prefix) < 8 or not 2 <= size <= min(_LONGEST_HEADER, length - 8):
        raise CheckpointError(
            f"{path}: announces a header of {size} bytes in a file of {length}; it is no safetensors file or was cut "
            "short: restore it"
        )
    text = bytearray(size)
    read_at(descriptor, memoryview(text), 8)
    if text[:1] != b"{" or sum(map(text.count, (b",", b"[", b"{"))) > _MOST_JSON_VALUES:
        raise CheckpointError(f"{path}: its header is no JSON object, or one of too many values; restore the file")
    try:
        return 8 + size, json.loads(text.decode(), object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:  # ValueError: UnicodeDecodeError and JSONDecodeError too
        raise CheckpointError(f"{path}: its header is no JSON object ({error}); restore the file") from error


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _attributes(path: Path, metadata: Any) -> dict[str, Attribute]:
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise CheckpointError(f"{path}: its {_METADATA} is not all texts; restore the file")
    return {check_name(path, name): value for name, value in metadata.items()}


def _stored(path: Path, name: str, entry: Any, start: int, length: int) -> ExtentArray:
    where = f'{path}: array "{name}"'
    if not isinstance(entry, dict) or entry.keys() != _FIELDS:
        raise CheckpointError(f"{where}: its entry has not just {', '.join(sorted(_FIELDS))}; restore the file")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    dtype = _DTYPES.get(kind) if isinstance(kind, str) else None
    if dtype is None:
        raise CheckpointError(f"{where} has dtype {str(kind)[:40]!r}; use one of {', '.join(_DTYPES)}")
    if not _are_sizes(shape, _MOST_DIMS) or not _are_sizes(offsets, 2) or len(offsets) != 2:
        raise CheckpointError(f"{where}: shape or data_offsets are no short lists of integers; restore the file")
    nbytes = prod(shape) * dtype.itemsize
    if not 0 <= offsets[0] <= offsets[1] <= length or offsets[1] - offsets[0] != nbytes:
        raise CheckpointError(
            f"{where} has {nbytes} bytes, but its offsets are {offsets} of {length}; the file was cut short or is "
            "damaged: restore it"
        )
    return ExtentArray(TensorSpec(tuple(shape), dtype), (Extent(start + offsets[0], nbytes),))


def _are_sizes(numbers: Any, most: int) -> bool:
    return (
        isinstance(numbers, list)
        and len(numbers) <= most
        and all(type(number) is int and 0 <= number < _MOST_BYTES for number in numbers)
    )


def _check_cover(path: Path, stored: Mapping[str, ExtentArray], start: int, length: int) -> None:
    """Raise ``CheckpointError`` unless the arrays follow one another from ``start`` to the end of the file."""
    end = start
    for offset, nbytes in sorted(item.extents[0] for item in stored.values()):
        if offset != end:
            raise CheckpointError(f"{path}: byte {min(offset, end)} lies in two arrays or in none; restore the file")
        end += nbytes
    if end != start + length:
        raise CheckpointError(f"{path}: {start + length - end} bytes at the end are in no array; restore the file")
