"""Digests of arrays in files, made so that a part can be checked without reading the rest.

The table of an array is the CRC-32 of each MiB of its bytes. Its digest, eight hexadecimal digits, is the CRC-32 of the
table as little-endian 32-bit numbers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mpiparallel.errors import CheckpointError

_BLOCK = 1 << 20


@dataclass(frozen=True)
class StoredArray:
    """Where the ``size`` bytes of an array are in a file, and their table; ``where`` names it in messages."""

    where: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int
    size: int
    table: NDArray[np.uint32]

    @property
    def digest(self) -> str:
        """The digest of the table."""
        return digest_of(self.table)


def block_count(size: int) -> int:
    """Return how many entries the table of ``size`` bytes has."""
    return -(-size // _BLOCK)


def block_table(content: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the table of the bytes of an array."""
    blocks = (content[block * _BLOCK : (block + 1) * _BLOCK] for block in range(block_count(content.size)))
    return np.array([crc32(block.data) for block in blocks], dtype="<u4")


def digest_of(table: NDArray[np.uint32]) -> str:
    """Return the digest of an array from its table.

    >>> digest_of(block_table(np.zeros(5, np.uint8)))
    'e60914ae'
    """
    return f"{crc32(table.astype('<u4').data):08x}"


def read_verified(descriptor: int, stored: StoredArray, start: int, stop: int) -> NDArray[np.uint8]:
    """Return bytes ``[start, stop)`` of an array, after checking all blocks that hold one of them.

    Raises ``CheckpointError`` that names the bytes whose digest is wrong, or ``OSError``.
    """
    blocks = range(start // _BLOCK, block_count(stop)) if stop > start else range(0)
    begin = blocks.start * _BLOCK
    content = np.empty(min(blocks.stop * _BLOCK, stored.size) - begin, np.uint8)
    for block in blocks:
        piece = content[block * _BLOCK - begin : (block + 1) * _BLOCK - begin]
        _fill(descriptor, piece, stored.offset + block * _BLOCK, stored.where)
        found, expected = crc32(piece.data), int(stored.table[block])
        if found != expected:
            raise CheckpointError(
                f"{stored.where}: bytes {block * _BLOCK} to {block * _BLOCK + piece.size - 1} have CRC-32 {found:08x}, "
                f"expected {expected:08x}: damaged; restore the file, or use that of a rank with equal state"
            )
    if stop == start:
        return content[:0]
    return content[start - begin : stop - begin]


def _fill(descriptor: int, content: NDArray[np.uint8], offset: int, where: str) -> None:
    view = content.data
    while view.nbytes:
        count = os.preadv(descriptor, [view], offset)
        if not count:
            raise CheckpointError(f"{where}: the file ends at byte {offset}, before the data; restore the file")
        view, offset = view[count:], offset + count
