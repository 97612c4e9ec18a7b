"""Damaged contents of files: bits flipped, numbers made huge, pieces lost, doubled or swapped."""

from __future__ import annotations

import numpy as np

_STRIKING = (b"\0", b"\xff", b"\x7f", b"\xff" * 8, b"\0" * 8, b"\x80" * 9, b"\xff\xff\xff\xff\x7f", b'"', b"{[", b"-1")


def mutations(contents, count, seed=0):
    """Yield ``count`` damaged versions of ``contents``, in turn, the same for the same seed."""
    random = np.random.default_rng(seed)
    for index in range(count):
        content = bytearray(contents[index % len(contents)])
        for _ in range(random.integers(1, 4)):
            _damage(content, random)
        yield bytes(content)


def _damage(content, random):
    size = max(1, len(content))
    first, second = sorted(random.integers(0, size, 2))
    second = min(second, first + 64)
    kind = random.integers(6)
    if kind == 0 and content:
        content[first] ^= 1 << random.integers(8)
    elif kind == 1:
        striking = _STRIKING[random.integers(len(_STRIKING))]
        content[first : first + len(striking)] = striking
    elif kind == 2:
        del content[first:second]
    elif kind == 3:
        content[first:first] = content[first:second]
    elif kind == 4:
        del content[first:]
    else:
        content[first:second] = content[second : 2 * second - first]
