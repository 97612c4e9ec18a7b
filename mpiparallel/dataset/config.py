"""The seed that new datasets start from, and how far iterators read ahead, as ``mindspore.dataset.config``.

A dataset takes the seed once, when it is made; a later :func:`set_seed` changes only datasets made after it. An
iterator takes the prefetch size when it is made.
"""

from __future__ import annotations

from mpiparallel.errors import DatasetError

# MindSpore's default, which is that of std::mt19937.
_seed = 5489
# Two hide the making of batches behind steps as well as more do; MindSpore's 16 would hold 16 batches of images.
_prefetch_size = 2


def set_seed(seed: int) -> None:
    """Take ``seed`` (0 to 2**32 - 1) for every dataset that is made from now on.

    Raises:
        DatasetError: if the seed is not such an integer.
    """
    global _seed
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise DatasetError(f"dataset.config.set_seed: seed is {seed!r}; give an integer from 0 to 4294967295")
    _seed = seed


def get_seed() -> int:
    """Return the seed that a dataset made now would take.

    >>> get_seed()
    5489
    """
    return _seed


def set_prefetch_size(size: int) -> None:
    """Let a thread of each iterator that is made from now on read ``size`` rows ahead, batches after ``batch``.

    With 0 there is no such thread: better where rows are made by Python alone, of which one thread runs at a time. So
    many rows (batches) are held in memory besides the one in use.

    Raises:
        DatasetError: if the size is not an integer of 0 or more.
    """
    global _prefetch_size
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise DatasetError(f"dataset.config.set_prefetch_size: size is {size!r}; give an integer of 0 or more")
    _prefetch_size = size


def get_prefetch_size() -> int:
    """Return how many rows (batches) an iterator made now would read ahead.

    >>> get_prefetch_size()
    2
    """
    return _prefetch_size
