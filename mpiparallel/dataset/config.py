"""The seed that new datasets start from, as ``mindspore.dataset.config``.

A dataset takes the seed once, when it is made; a later :func:`set_seed` changes only datasets made after it.
"""

from __future__ import annotations

from mpiparallel.errors import DatasetError

# MindSpore's default, which is that of std::mt19937.
_seed = 5489


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
