"""Shards in the formats of others, which have no digests: those in the manifest stand for them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import Attribute, NamedArrays
from mpiparallel.checkpoint.files.regular_file import open_regular
from mpiparallel.checkpoint.formats.registry import FORMATS, open_file, write_file
from mpiparallel.checkpoint.shard.block_digest import BLOCK, BlockTable, digest_of
from mpiparallel.checkpoint.shard.reader import ShardFile, open_shard
from mpiparallel.checkpoint.shard.writer import WrittenShard, write_shard
from mpiparallel.errors import CheckpointError, reason

_OWN: Final = FORMATS["h5"].suffix
_PIECE: Final = 4 * BLOCK
_MEND: Final = "restore the file, or run mpiparallel ckpt recover"


class DigestedFile:
    """An open file of arrays of another format, an ``ArrayFile``, with the digests that a ``ShardFile`` has.

    ``digest`` is that of all bytes of the file, which opening it reads, 32 hexadecimal digits.
    """

    def __init__(self, path: Path, expected_digest: str | None) -> None:
        self.path = path
        self.digest = _digest_of_file(path)
        if expected_digest not in (None, self.digest):
            raise CheckpointError(
                f"{path}: has digest {self.digest}, expected {expected_digest}: it is damaged, or of another rank or "
                f"step; {_MEND}"
            )
        self._file = open_file(path)
        self.arrays: Mapping[str, TensorSpec] = self._file.arrays
        self.attributes: Mapping[str, Attribute] = self._file.attributes

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """The digest of each array, 16 hexadecimal digits; all of them are read."""
        return {name: self._digest(name, info) for name, info in self.arrays.items()}

    def fill(self, name: str, first: int, target: NDArray[Any]) -> None:
        """Fill ``target`` with elements of an array; see ``ArrayFile``."""
        self._file.fill(name, first, target)

    def verify(self, names: Iterable[str]) -> None:
        """Return: opening it has read every byte."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> DigestedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _digest(self, name: str, info: TensorSpec) -> str:
        table, at_once = BlockTable(), max(1, _PIECE // info.dtype.itemsize)
        for first in range(0, info.size, at_once):
            piece = np.empty(min(at_once, info.size - first), info.dtype)
            self._file.fill(name, first, piece)
            table.add(piece.view(np.uint8).data)
        return digest_of(table.content())


def open_committed(path: Path, expected_digest: str | None = None) -> ShardFile | DigestedFile:
    """Open a shard, of whatever format, after checking that it is the one of ``expected_digest``.

    Raises ``CheckpointError``.
    """
    return open_shard(path, expected_digest) if path.suffix == _OWN else DigestedFile(path, expected_digest)


def write_committed(
    path: Path, infos: Mapping[str, TensorSpec], arrays: NamedArrays, attributes: Mapping[str, Attribute]
) -> WrittenShard:
    """Write a shard in the format of its suffix; see ``write_shard``."""
    if path.suffix == _OWN:
        return write_shard(path, infos, arrays, attributes)
    digests: dict[str, str] = {}
    # In MindSpore's files they would be arrays, which others take for parameters.
    told = {} if path.suffix == FORMATS["ckpt"].suffix else attributes
    write_file(path, infos, _digesting(arrays, digests), told)
    return WrittenShard(path.stat().st_size, _digest_of_file(path), digests)


def _digesting(arrays: NamedArrays, digests: dict[str, str]) -> Iterator[tuple[str, NDArray[Any]]]:
    for name, array in arrays:
        table = BlockTable()
        table.add(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        digests[name] = digest_of(table.content())
        yield name, array


def _digest_of_file(path: Path) -> str:
    digest = xxhash.xxh3_128()
    try:
        with os.fdopen(open_regular(path), "rb", buffering=0) as file:
            while content := file.read(_PIECE):
                digest.update(content)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({reason(error)}); {_MEND}") from error
    return digest.hexdigest()
