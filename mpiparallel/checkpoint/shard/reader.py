"""Reading a shard, without HDF5: all of it is checked before memory is spent on it."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import Attribute, info_in
from mpiparallel.checkpoint.files.regular_file import open_regular
from mpiparallel.checkpoint.shard.block_digest import BLOCK, block_count, digest_in, digest_of
from mpiparallel.checkpoint.shard.index import (
    FOOTER_LENGTH,
    MAX_INDEX_LENGTH,
    ArrayLocation,
    Footer,
    Index,
    gaps,
)
from mpiparallel.errors import CheckpointError, reason

_MEND = "restore the file, or run mpiparallel ckpt recover"
_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
# What HDF5 needs at most: for itself, and for each array.
_SKELETON_LENGTH = 1 << 20
_SKELETON_LENGTH_PER_ARRAY = 1 << 14


def open_shard(path: str | Path, expected_digest: str | None = None) -> ShardFile:
    """Open the shard ``path`` after checking what it says of its arrays.

    Raises ``CheckpointError`` if it is no sound shard, or not the one of ``expected_digest``, 32 hexadecimal digits.
    """
    path = Path(path)
    try:
        raw = io.FileIO(open_regular(path))
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({reason(error)}); {_MEND}") from error
    try:
        return ShardFile(path, raw, expected_digest)
    except BaseException:
        raw.close()
        raise


class ShardFile:
    """An open shard, an ``ArrayFile``. Threads may read from it at the same time.

    ``digest`` is that of the whole file, 32 hexadecimal digits; ``digests`` has 16 for each array.
    """

    def __init__(self, path: Path, raw: io.FileIO, expected_digest: str | None) -> None:
        self.path = path
        self._raw = raw
        size = os.fstat(raw.fileno()).st_size
        footer = self._read_footer(size)
        self.digest = footer.digest.hex()
        if expected_digest not in (None, self.digest):
            raise self._error(f"has digest {self.digest}, expected {expected_digest}: it is of another rank or step")
        index, self._around = self._read_index(footer, size)
        self._skeleton = index.skeleton
        self._stored = index.arrays
        self.attributes: Mapping[str, Attribute] = index.attributes
        self.arrays: Mapping[str, TensorSpec] = {name: stored.info for name, stored in index.arrays.items()}

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """The digest of each array, of which a load asks nothing."""
        return {name: digest_of(stored.table) for name, stored in self._stored.items()}

    def place(self, name: str) -> ArrayLocation:
        """Return where an array is. Raises ``CheckpointError`` if there is none of that name."""
        info_in(self, name)
        return self._stored[name].place

    def fill(self, name: str, first: int, target: NDArray[Any]) -> None:
        """Fill ``target``, 1-D, contiguous and of the array's dtype, with its elements from ``first`` on, in C order.

        Raises ``CheckpointError`` where those are damaged or are not there.
        """
        info = info_in(self, name)
        fits = target.dtype == info.dtype and target.ndim == 1 and target.flags.c_contiguous
        if not fits or not 0 <= first <= info.size - target.size:
            raise CheckpointError(
                f'{self.path}: array "{name}" has {info.size} elements of {info.dtype}; there are no {target.size} of '
                f"{target.dtype} from {first} on, or the target is not 1-D and contiguous"
            )
        if target.size:
            self._fill(name, first * info.dtype.itemsize, target.view(np.uint8).data)

    def verify(self, names: Iterable[str] | None = None) -> None:
        """Read the arrays ``names``, or all, and what is around the arrays, which only HDF5 needs.

        Raises ``CheckpointError`` that names the first damaged bytes.
        """
        bounce = memoryview(bytearray(BLOCK))
        for name in self._stored if names is None else names:
            length = info_in(self, name).byte_count
            for block in range(block_count(length)):
                self._read_block(name, block, bounce[: min(BLOCK, length - block * BLOCK)])
        self._verify_skeleton(bounce)

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    def __enter__(self) -> ShardFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _fill(self, name: str, start: int, target: memoryview) -> None:
        """Fill ``target`` with the bytes from ``start`` on; blocks that lie in it whole are read where they belong."""
        stop, length = start + target.nbytes, self.arrays[name].byte_count
        for block in range(start // BLOCK, block_count(stop)):
            begin, end = block * BLOCK, min(length, (block + 1) * BLOCK)
            if start <= begin and end <= stop:
                self._read_block(name, block, target[begin - start : end - start])
                continue
            bounce = memoryview(bytearray(end - begin))
            self._read_block(name, block, bounce)
            low, high = max(start, begin), min(stop, end)
            target[low - start : high - start] = bounce[low - begin : high - begin]

    def _read_block(self, name: str, block: int, content: memoryview) -> None:
        stored = self._stored[name]
        self._read(content, stored.place.offset + block * BLOCK, f'array "{name}"')
        start, stop = block * BLOCK, block * BLOCK + content.nbytes
        found, expected = xxhash.xxh3_64_digest(content), digest_in(stored.table, block)
        self._compare(f'array "{name}": bytes {start} to {stop - 1} are', found, expected)

    def _read_footer(self, size: int) -> Footer:
        content = bytearray(min(size, FOOTER_LENGTH))
        self._read(memoryview(content), size - len(content), "footer")
        try:
            return Footer.decode(bytes(content))
        except ValueError as error:
            start = bytearray(min(size, len(_HDF5_MAGIC)))
            self._read(memoryview(start), 0, "start")
            what = "an HDF5 file, but no shard of mpiparallel" if start == _HDF5_MAGIC else "no shard of mpiparallel"
            raise self._error(f"is {what}, or a damaged one: it has {size} bytes and {error}") from error

    def _read_index(self, footer: Footer, size: int) -> tuple[Index, list[tuple[int, int]]]:
        """Return the index, and start and stop of each stretch of the file that is neither array, index nor footer."""
        end = size - FOOTER_LENGTH
        if footer.length > min(end, MAX_INDEX_LENGTH) or footer.offset > end - footer.length:
            raise self._error(f"index: has {footer.length} bytes at {footer.offset}, but the file has {size}")
        content = bytearray(footer.length)
        self._read(memoryview(content), footer.offset, "index")
        self._compare("index: is", xxhash.xxh3_128_digest(content), footer.digest)
        try:
            index = Index.decode(content)
            extents = [stored.extent for stored in index.arrays.values()]
            around = gaps([*extents, (footer.offset, footer.offset + footer.length)], end)
        except ValueError as error:
            raise self._error(f"index: is none of a shard: it {error}") from error
        length = sum(stop - start for start, stop in around)
        if length > _SKELETON_LENGTH + _SKELETON_LENGTH_PER_ARRAY * len(index.arrays):
            raise self._error(f"index: does not say what {length} bytes of the file are")
        return index, around

    def _verify_skeleton(self, bounce: memoryview) -> None:
        digest = xxhash.xxh3_128()
        for start, stop in self._around:
            for offset in range(start, stop, BLOCK):
                piece = bounce[: min(BLOCK, stop - offset)]
                self._read(piece, offset, "skeleton")
                digest.update(piece)
        self._compare("skeleton: what is around the arrays is", digest.digest(), self._skeleton)

    def _read(self, content: memoryview, offset: int, what: str) -> None:
        try:
            while content.nbytes:
                count = os.preadv(self._raw.fileno(), [content], offset)
                if not count:
                    break
                content, offset = content[count:], offset + count
        except (OSError, ValueError) as error:  # ValueError: it was closed
            raise self._error(f"{what}: cannot be read ({error})") from error
        if content.nbytes:
            raise self._error(f"{what}: the file ends at byte {offset}, before it")

    def _compare(self, what: str, found: bytes, expected: bytes) -> None:
        if found != expected:
            raise self._error(f"{what} damaged (XXH3 {found.hex()}, expected {expected.hex()})")

    def _error(self, failure: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: {failure}; {_MEND}")
