"""HDF5 files with what one rank holds; the only module that knows h5py.

A shard is a plain HDF5 file: one contiguous dataset an array, page-aligned where it is large. HDF5 never touches the
file itself: it lays out an image in memory in which the data are holes, and the bytes of the arrays go straight to
the file. So a full disk is an ``OSError``, not a crash inside HDF5, and no second copy of the state is made.

Each dataset has the attributes ``block_crc32`` and ``crc32``: the table and the digest of ``block_digest``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import h5py
import numpy as np
from numpy.typing import NDArray

from mpiparallel.checkpoint.block_digest import StoredArray, block_count, block_table, digest_of, read_verified
from mpiparallel.checkpoint.durable_file import replacing, write_at
from mpiparallel.checkpoint.sparse_image import SparseImage
from mpiparallel.errors import CheckpointError

_PAGE = 4096
_UNREADABLE = ("cannot be read as a shard", "restore the file, or use that of a rank with equal state")
_DTYPES = frozenset("?bhilqBHILQefdFD")
# The first version of the format with checksums on its own metadata; every HDF5 since 2016 reads it.
_FORMAT = ("v110", "v110")


class Description(NamedTuple):
    """What a shard holds under one name; ``digest`` is eight hexadecimal digits."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    digest: str


def write_shard(
    path: str | Path, arrays: Mapping[str, NDArray[Any]], attributes: Mapping[str, str | int | float]
) -> dict[str, str]:
    """Write ``arrays`` and ``attributes`` to ``path`` in one step and return the digest of each array.

    When it returns, the file is on disk. Arrays are bool, integers, float or complex in native byte order; names may
    be any text without control characters. Raises ``CheckpointError``, and then ``path`` is as it was, if an array or a
    name cannot be stored or if the disk fails or is full.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     digests = write_shard(f"{folder}/one.h5", {"net.w1": np.arange(6.0)}, {"step": 7})
    ...     read_shard(f"{folder}/one.h5")
    {'net.w1': array([0., 1., 2., 3., 4., 5.])}
    """
    tables = {}
    for name, array in arrays.items():
        _check_dtype(array.dtype, f'{path}: array "{name}"')
        tables[name] = block_table(_bytes(array))
    image = SparseImage()
    with _translated(path, "cannot be laid out", "use shorter names, fewer attributes, at most 32 dims"):
        offsets = _lay_out(image, arrays, tables, attributes, f"{path}")
    needed = image.seek(0, os.SEEK_END)
    try:
        with replacing(Path(path)) as descriptor:
            image.copy_to(descriptor)
            for name, offset in offsets.items():
                write_at(descriptor, _bytes(arrays[name]).data, offset)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        raise CheckpointError(
            f"{path}: cannot be written ({error}); it needs {needed} bytes in a writable folder: free some or "
            "choose another folder"
        ) from error
    return {name: digest_of(table) for name, table in tables.items()}


def describe_shard(path: str | Path) -> dict[str, Description]:
    """Return what is in the shard ``path`` without reading it. Raises ``CheckpointError`` if it is no sound shard."""
    with _opened(path) as (_, stored):
        return {name: Description(item.shape, item.dtype, item.digest) for name, item in stored.items()}


def read_shard(path: str | Path, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays ``names`` of the shard ``path``, or all of them.

    Raises ``CheckpointError`` that names file, array and the digests expected and found if the file is damaged.
    """
    with _opened(path) as (descriptor, stored):
        arrays = {}
        for name in stored if names is None else names:
            item = _named(stored, name, path)
            content = read_verified(descriptor, item, 0, item.size)
            arrays[name] = content.view(item.dtype).reshape(item.shape)
        return arrays


def read_box(path: str | Path, name: str, slices: tuple[slice, ...]) -> NDArray[Any]:
    """Return the part ``slices``, one of step 1 for each dim, of the array ``name`` in the shard ``path``.

    Reads, and checks, only the rows of dim 0 that it needs. Raises ``CheckpointError`` if the array has no such part or
    is damaged there.
    """
    with _opened(path) as (descriptor, stored):
        item = _named(stored, name, path)
        if len(slices) != len(item.shape) or not all(map(_lies_in, slices, item.shape)):
            raise CheckpointError(f"{item.where} has shape {item.shape}; slices {slices} are not a part of it")
        if not slices:
            return read_verified(descriptor, item, 0, item.size).view(item.dtype).reshape(())
        rows = slices[0].stop - slices[0].start
        row_size = item.size // max(1, item.shape[0])
        content = read_verified(descriptor, item, slices[0].start * row_size, slices[0].stop * row_size)
        block = content.view(item.dtype).reshape((rows, *item.shape[1:]))
        part = (slice(None), *slices[1:])
        return block[part].copy()


def read_attributes(path: str | Path) -> dict[str, str | int | float]:
    """Return the attributes of the shard ``path``. Raises ``CheckpointError`` if it is no sound shard."""
    with _translated(path, *_UNREADABLE), Path(path).open("rb") as raw, h5py.File(raw, "r") as file:
        values = {}
        for name in file.attrs:
            info = file.attrs.get_id(name)
            if info.shape != () or info.dtype.kind not in "Sif":
                raise CheckpointError(f'{path}: attribute "{name}" is {info.dtype}, not a text or a number')
            value = file.attrs[name]
            values[name] = value.decode() if isinstance(value, bytes) else value.item()
        return values


def _lay_out(
    image: SparseImage,
    arrays: Mapping[str, NDArray[Any]],
    tables: Mapping[str, NDArray[np.uint32]],
    attributes: Mapping[str, str | int | float],
    where: str,
) -> dict[str, int]:
    """Write to ``image`` all but the bytes of the arrays; return where these belong, for arrays that have any."""
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_layout(h5py.h5d.CONTIGUOUS)
    creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    offsets = {}
    with h5py.File(image, "w", libver=_FORMAT, alignment_threshold=16 * _PAGE, alignment_interval=_PAGE) as file:
        for name, value in attributes.items():
            _set_attribute(file, name, value, where)
        for name, array in arrays.items():
            # Group.create_dataset would allocate 0-d ones late.
            kind, space = h5py.h5t.py_create(array.dtype, logical=True), _dataspace(array.shape)
            dataset = h5py.Dataset(h5py.h5d.create(file.id, _encoded(name, where).encode(), kind, space, creation))
            dataset.attrs["block_crc32"] = tables[name]
            dataset.attrs["crc32"] = np.uint32(int(digest_of(tables[name]), 16))
            if array.nbytes:
                offsets[name] = dataset.id.get_offset()
    return offsets


def _dataspace(shape: tuple[int, ...]) -> Any:
    return h5py.h5s.create_simple(shape) if shape else h5py.h5s.create(h5py.h5s.SCALAR)


def _set_attribute(file: Any, name: str, value: str | int | float, where: str) -> None:
    if type(value) not in (str, int, float) or "\0" in f"{name}{value}" or not name:
        raise CheckpointError(f"{where}: attribute {name!r} is {value!r}; use a name with a text or a number")
    try:
        if isinstance(value, str):
            # Text of a fixed length lies in the header, which has a checksum; other text does not.
            content = value.encode()
            file.attrs.create(name, content, dtype=h5py.string_dtype("utf-8", max(1, len(content))))
        else:
            file.attrs.create(name, value, dtype=np.int64 if isinstance(value, int) else np.float64)
    except (OverflowError, UnicodeEncodeError) as error:
        raise CheckpointError(f"{where}: attribute {name!r} is {value!r}, which HDF5 cannot hold ({error})") from error


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[int, dict[str, StoredArray]]]:
    """Give the descriptor of a shard and what is in it, by name."""
    with _translated(path, *_UNREADABLE), Path(path).open("rb") as raw:
        with h5py.File(raw, "r") as file:
            length = os.fstat(raw.fileno()).st_size
            stored = {_decoded(key, str(path)): _stored(file, key, str(path), length) for key in file}
        yield raw.fileno(), stored


@contextmanager
def _translated(path: str | Path, failure: str, mend: str) -> Iterator[None]:
    """Raise whatever h5py raises as ``CheckpointError``."""
    try:
        yield
    except CheckpointError:
        raise
    except (OSError, KeyError, RuntimeError, ValueError, TypeError, OverflowError, AttributeError) as error:
        raise CheckpointError(f"{path}: {failure} ({error}); {mend}") from error


def _stored(file: Any, key: str, path: str, length: int) -> StoredArray:
    """Return where the data of dataset ``key`` are, once it is sure that they are in this file, all of them."""
    where = f'{path}: dataset "{_decoded(key, path)}"'
    if type(file.get(key, getlink=True)) is not h5py.HardLink or file.get(key, getclass=True) is not h5py.Dataset:
        raise CheckpointError(f"{where} is a link or a group; only a dataset of this file itself can be read")
    dataset = file[key]
    creation = dataset.id.get_create_plist()
    if creation.get_layout() != h5py.h5d.CONTIGUOUS or creation.get_external_count() or dataset.shape is None:
        raise CheckpointError(f"{where} is virtual, external, chunked or null; only contiguous data can be read")
    _check_dtype(dataset.dtype, where)
    offset, size = dataset.id.get_offset() or 0, int(dataset.size) * dataset.dtype.itemsize
    if size and not 0 < offset <= length - size:
        raise CheckpointError(f"{where} has {size} bytes at {offset}, but the file has only {length}: it was cut off")
    blocks, whole = dataset.attrs.get_id("block_crc32"), dataset.attrs.get_id("crc32")
    if (blocks.dtype, blocks.shape, whole.dtype, whole.shape) != (np.uint32, (block_count(size),), np.uint32, ()):
        raise CheckpointError(
            f"{where} has no digests that fit its {size} bytes; only shards of mpiparallel can be read"
        )
    item = StoredArray(where, dataset.shape, np.dtype(dataset.dtype.str), offset, size, dataset.attrs["block_crc32"])
    if item.digest != f"{dataset.attrs['crc32']:08x}":
        raise CheckpointError(f"{where} has digests of digest {item.digest}, not {dataset.attrs['crc32']:08x}: damaged")
    return item


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _check_dtype(dtype: np.dtype[Any], where: str) -> None:
    if dtype.char not in _DTYPES or not dtype.isnative:
        raise CheckpointError(f"{where} has dtype {dtype}; use bool, integers, float or complex in native byte order")


def _lies_in(part: slice, extent: int) -> bool:
    return part.step in (None, 1) and 0 <= part.start <= part.stop <= extent


def _named(stored: Mapping[str, StoredArray], name: str, path: str | Path) -> StoredArray:
    if name not in stored:
        raise CheckpointError(f'{path}: has no array "{name}"; it has {", ".join(sorted(stored)) or "none"}')
    return stored[name]


def _encoded(name: str, where: str) -> str:
    """Return a dataset name that is no path: each name is one entry of the root group."""
    if not name or not name.isprintable():
        raise CheckpointError(f"{where}: {name!r} cannot name an array; use a name without control characters")
    # A name of dots only would be a path.
    return quote(name, safe=" ") if name.strip(".") else name.replace(".", "%2E")


def _decoded(key: str, where: str) -> str:
    name = unquote(key, errors="strict")
    if _encoded(name, where) != key:
        raise CheckpointError(f'{where}: dataset "{key}" was not named by mpiparallel; only its own shards can be read')
    return name
