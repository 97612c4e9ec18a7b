"""Writing a shard: the bytes of the arrays go straight to where HDF5 expects them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import Attribute
from mpiparallel.checkpoint.files.durable_file import replacing, write_at
from mpiparallel.checkpoint.shard.block_digest import BLOCK, BlockTable, digest_of, small_table
from mpiparallel.checkpoint.shard.index import (
    FOOTER_LENGTH,
    FUSED_LENGTH,
    ArrayLocation,
    Footer,
    IndexDraft,
    check_attribute,
    check_info,
    check_name,
    gaps,
)
from mpiparallel.errors import CheckpointError

if TYPE_CHECKING:
    from mpiparallel.checkpoint.shard.skeleton import Skeleton

# Large enough for full speed, small enough to be in the cache still when it is written after it was digested.
_PIECE = 4 * BLOCK


class WrittenShard(NamedTuple):
    """Length of a shard in bytes, its digest (32 hexadecimal digits) and that of each array (16)."""

    size: int
    digest: str
    arrays: dict[str, str]


def write_shard(
    path: str | Path,
    infos: Mapping[str, TensorSpec],
    arrays: Iterable[tuple[str, NDArray[Any]]],
    attributes: Mapping[str, Attribute],
) -> WrittenShard:
    """Write ``arrays`` and ``attributes`` to ``path`` in one step.

    ``arrays`` come as ``infos`` says and in that order, each only when the one before is written, so they need not be
    in memory together. They are bool, integers, float or complex; names are texts of at most 1024 bytes without control
    characters. When it returns, the file is on disk. Raises ``CheckpointError`` if an array, a name or an attribute
    cannot be stored, or if the disk fails or is full. Then ``path`` is as it was.

    >>> from tempfile import TemporaryDirectory
    >>> from mpiparallel.checkpoint.files.array_file import infos_of, read_array
    >>> from mpiparallel.checkpoint.shard.reader import open_shard
    >>> state = {"net.w1": np.arange(6.0)}
    >>> with TemporaryDirectory() as folder:
    ...     written = write_shard(f"{folder}/one.h5", infos_of(state), state.items(), {"step": 7})
    ...     with open_shard(f"{folder}/one.h5", written.digest) as shard:
    ...         read_array(shard, "net.w1")
    array([0., 1., 2., 3., 4., 5.])
    """
    path = Path(path)
    _check(path, infos, attributes)
    skeleton, draft = _lay_out(path, infos, attributes)
    size = skeleton.end + FOOTER_LENGTH
    try:
        with replacing(path) as descriptor:
            for offset, content in skeleton.image.pages():
                write_at(descriptor, memoryview(content), offset)
            tables = _write_arrays(descriptor, skeleton.places, _matching(path, infos, arrays))
            digest = _write_index(descriptor, skeleton, infos, draft, tables)
    except OSError as error:
        raise CheckpointError(
            f"{path}: cannot be written ({error}); it needs {size} bytes in a writable folder: free some or choose "
            "another folder"
        ) from error
    return WrittenShard(size, digest.hex(), {name: digest_of(table) for name, table in tables.items()})


def _check(path: Path, infos: Mapping[str, TensorSpec], attributes: Mapping[str, Attribute]) -> None:
    if "\0" in str(path):
        raise CheckpointError(f"{str(path)!r} cannot name a file; use a path without control characters")
    subject = ""
    sound: set[tuple[tuple[int, ...], np.dtype[Any]]] = set()
    try:
        for attribute, value in attributes.items():
            check_attribute(attribute, value)
        for name, info in infos.items():
            check_name(name)
            # Most arrays are of few shapes.
            alike = info.shape, info.dtype
            if alike not in sound:
                subject = f'array "{name}" '
                check_info(info)
                subject = ""
                sound.add(alike)
    except ValueError as error:
        raise CheckpointError(f"{path}: {subject}{error}") from error


def _lay_out(
    path: Path, infos: Mapping[str, TensorSpec], attributes: Mapping[str, Attribute]
) -> tuple[Skeleton, IndexDraft]:
    from mpiparallel.checkpoint.shard.skeleton import lay_out  # loads h5py, which who only reads does not need

    drafts = []

    def index_length(places: Mapping[str, ArrayLocation]) -> int:
        drafts.append(IndexDraft(attributes, infos, places))
        return drafts[0].length

    try:
        return lay_out(infos, index_length), drafts[0]
    except (OSError, RuntimeError, ValueError, KeyError, OverflowError) as error:  # whatever h5py raises
        raise CheckpointError(f"{path}: cannot be laid out ({error}); cut the state over more ranks") from error


def _matching(
    path: Path, infos: Mapping[str, TensorSpec], arrays: Iterable[tuple[str, NDArray[Any]]]
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Give the arrays, once it is sure that each is the one that is due."""
    due = iter(infos.items())
    for name, array in arrays:
        expected, info = next(due, (None, None))
        if name != expected or info is None or array.shape != info.shape or array.dtype != info.dtype:
            raise CheckpointError(
                f'{path}: array "{name}" of shape {array.shape} and dtype {array.dtype} comes where "{expected}" is '
                f"due, {info}; give the arrays in the order of their infos"
            )
        yield name, np.asarray(array)
        # Before the next one is made.
        del array
    missing = next(due, None)
    if missing is not None:
        raise CheckpointError(f'{path}: array "{missing[0]}" does not come; give an array for each info')


def _write_arrays(
    descriptor: int, places: Mapping[str, ArrayLocation], arrays: Iterator[tuple[str, NDArray[Any]]]
) -> dict[str, bytes]:
    """Write the arrays and return their tables."""
    tables, runs = {}, dict[str, _Run]()
    for name, array in arrays:
        place = places[name]
        if array.nbytes >= FUSED_LENGTH:
            tables[name] = _write_large(descriptor, array, place.offset)
        else:
            content = array.tobytes()
            tables[name] = small_table(content)
            # An empty array has no place.
            if content:
                if place.dataset not in runs:
                    runs[place.dataset] = _Run(descriptor, place.offset)
                runs[place.dataset].add(content)
        del array
    for run in runs.values():
        run.flush()
    return tables


class _Run:
    """Small arrays that follow one another in the file; a piece of them is written at once."""

    def __init__(self, descriptor: int, offset: int) -> None:
        self._descriptor, self._offset = descriptor, offset
        self._contents: list[bytes] = []
        self._length = 0

    def add(self, content: bytes) -> None:
        self._contents.append(content)
        self._length += len(content)
        if self._length >= BLOCK:
            self.flush()

    def flush(self) -> None:
        write_at(self._descriptor, memoryview(b"".join(self._contents)), self._offset)
        self._offset += self._length
        self._contents, self._length = [], 0


def _write_large(descriptor: int, array: NDArray[Any], offset: int) -> bytes:
    """Write an array and return its table."""
    table = BlockTable()
    for portion in _portions(array):
        content = portion.reshape(-1).view(np.uint8).data
        for start in range(0, content.nbytes, _PIECE):
            piece = content[start : start + _PIECE]
            table.add(piece)
            write_at(descriptor, piece, offset)
            offset += piece.nbytes
    return table.content()


def _portions(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Give the elements in C order in contiguous portions: as they are, or in copies of at most a piece."""
    if array.flags.c_contiguous:
        yield array
    elif array.nbytes <= _PIECE:
        yield np.ascontiguousarray(array)
    else:
        rows = max(1, _PIECE // (array.nbytes // len(array)))
        for start in range(0, len(array), rows):
            yield from _portions(array[start : start + rows] if rows > 1 else array[start])


def _write_index(
    descriptor: int,
    skeleton: Skeleton,
    infos: Mapping[str, TensorSpec],
    draft: IndexDraft,
    tables: Mapping[str, bytes],
) -> bytes:
    """Write index and footer; return the digest of the index."""
    lengths = [(skeleton.places[name].offset, info.byte_count) for name, info in infos.items()]
    lengths.append((skeleton.index_offset, draft.length))
    around = xxhash.xxh3_128()
    for start, stop in gaps([(offset, offset + length) for offset, length in lengths], skeleton.end):
        around.update(skeleton.image.content(start, stop))
    index = draft.encode(tables, around.digest())
    write_at(descriptor, memoryview(index), skeleton.index_offset)
    footer = Footer(skeleton.index_offset, draft.length, xxhash.xxh3_128_digest(index))
    write_at(descriptor, memoryview(footer.encode()), skeleton.end)
    return footer.digest
