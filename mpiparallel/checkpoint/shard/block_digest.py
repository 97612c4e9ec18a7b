"""Digests of arrays, made so that a part can be checked without reading the rest.

The table of an array is the XXH3-64 of each MiB of its bytes, eight bytes each, most significant first. The digest of
the array is the XXH3-64 of its table.
"""

from __future__ import annotations

import xxhash

BLOCK = 1 << 20
DIGEST_LENGTH = 8


def block_count(length: int) -> int:
    """Return how many blocks ``length`` bytes make."""
    return -(-length // BLOCK)


def digest_of(table: bytes) -> str:
    """Return the digest of an array, sixteen hexadecimal digits, from its table.

    >>> table = BlockTable()
    >>> table.add(memoryview(bytes(5)))
    >>> digest_of(table.content())
    '0f9d79f606c4ce6b'
    """
    return xxhash.xxh3_64_hexdigest(table)


def small_table(content: bytes) -> bytes:
    """Return the table of at most one block."""
    return xxhash.xxh3_64_digest(content) if content else b""


def digest_in(table: bytes, block: int) -> bytes:
    """Return the digest of a block from a table."""
    return table[block * DIGEST_LENGTH : (block + 1) * DIGEST_LENGTH]


class BlockTable:
    """The table of bytes that come piece by piece."""

    def __init__(self) -> None:
        self._digests: list[bytes] = []
        self._begun = xxhash.xxh3_64()
        self._missing = BLOCK

    def add(self, content: memoryview) -> None:
        """Add the next bytes."""
        while content.nbytes:
            piece, content = content[: self._missing], content[self._missing :]
            self._begun.update(piece)
            self._missing -= piece.nbytes
            if not self._missing:
                self._end_block()

    def content(self) -> bytes:
        """Return the table of all that was added; nothing can be added any more."""
        if self._missing < BLOCK:
            self._end_block()
        return b"".join(self._digests)

    def _end_block(self) -> None:
        self._digests.append(self._begun.digest())
        self._begun.reset()
        self._missing = BLOCK
