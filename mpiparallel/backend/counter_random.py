"""Random numbers that depend on a key and an element's global index, never on who computes them.

Each 32-bit number is two rounds of a published integer finalizer over the element's index, keyed before each round. The
constants are those of Chris Wellons' hash prospector, bias 0.17. A rank makes only its own box, and gets the numbers
that one rank would have got there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.layout.box import Box

_CHUNK = 1 << 15


def stream_key(*names: object) -> int:
    """Return the 64-bit key of a stream of random numbers, from a seed, a name, a step and the like.

    >>> stream_key(1, "embedding") == stream_key(1, "embedding") != stream_key(2, "embedding")
    True
    """
    text = "\x1f".join(str(name) for name in names)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def keep_limit(probability: float) -> int:
    """Return the number below which 32 random bits are at this probability.

    >>> keep_limit(0.5) == 2**31
    True
    """
    return min(round(probability * 2**32), 2**32 - 1)


def _mix(xp: Any, bits: Array, scratch: Array) -> None:
    """Finalize ``bits`` (uint32) in place."""
    for shift, factor in ((16, 0x21F0AAAD), (15, 0xD35A2D97), (15, None)):
        xp.right_shift(bits, np.uint32(shift), out=scratch)
        xp.bitwise_xor(bits, scratch, out=bits)
        if factor is not None:
            xp.multiply(bits, np.uint32(factor), out=bits)


def _bits(xp: Any, key: int, low: Array, high: Array | None) -> Array:
    """Return 32 random bits for each 64-bit element index, given as its halves; no high half is 0."""
    bits = xp.bitwise_xor(low, np.uint32(key & 0xFFFFFFFF))
    scratch = xp.empty_like(bits)
    _mix(xp, bits, scratch)
    if high is not None:
        xp.add(bits, high, out=bits)
    xp.bitwise_xor(bits, np.uint32(key >> 32), out=bits)
    _mix(xp, bits, scratch)
    return bits


class RandomBox:
    """The random numbers of one box of a tensor of ``global_shape``.

    >>> whole = RandomBox(np, (4, 6), Box.whole((4, 6))).bits(7)
    >>> part = RandomBox(np, (4, 6), Box((1, 2), (3, 5))).bits(7)
    >>> bool((whole[1:3, 2:5] == part).all())
    True
    """

    def __init__(self, xp: Any, global_shape: tuple[int, ...], box: Box) -> None:
        self._xp = xp
        self._shape = box.shape
        strides = [prod(global_shape[dim + 1 :]) for dim in range(len(global_shape))]
        index = xp.zeros((), np.uint64)
        for start, stop, stride in zip(box.start, box.stop, strides, strict=True):
            index = index[..., None] + xp.arange(start, stop, dtype=np.uint64) * np.uint64(stride)
        self._low = (index & np.uint64(0xFFFFFFFF)).astype(np.uint32).reshape(-1)
        few = prod(global_shape) <= 1 << 32
        self._high = None if few else (index >> np.uint64(32)).astype(np.uint32).reshape(-1)

    def _chunks(self, key: int) -> Iterator[tuple[slice, Array]]:
        """Yield the random bits of pieces that stay in cache."""
        for start in range(0, self._low.size, _CHUNK):
            piece = slice(start, start + _CHUNK)
            yield piece, _bits(self._xp, key, self._low[piece], None if self._high is None else self._high[piece])

    def bits(self, key: int) -> Array:
        """Return 32 random bits for each element, as uint32 of the box's shape."""
        out = self._xp.empty(self._low.size, np.uint32)
        for piece, bits in self._chunks(key):
            out[piece] = bits
        return out.reshape(self._shape)

    def keep(self, key: int, probability: float, out: Array) -> None:
        """Fill ``out`` (bool) with True at ``probability``."""
        limit = np.uint32(keep_limit(probability))
        flat = out.reshape(-1)
        for piece, bits in self._chunks(key):
            self._xp.less(bits, limit, out=flat[piece])

    def uniform(self, key: int) -> Array:
        """Return float64 numbers in (0, 1)."""
        return (self.bits(key).astype(np.float64) + 0.5) * 2.0**-32

    def normal(self, key: int) -> Array:
        """Return float64 numbers of the standard normal distribution, by Box and Muller's transform."""
        radius = self._xp.sqrt(-2.0 * self._xp.log(self.uniform(key)))
        return radius * self._xp.cos(2.0 * np.pi * self.uniform(stream_key(key, "angle")))
