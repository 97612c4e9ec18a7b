"""The seed of random numbers, and how many draws have been made since it was set."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from mpiparallel.context.settings import all_settings, take_settings
from mpiparallel.errors import ConfigurationError

_NUMPY_SEEDS: Final = 1 << 32
_LARGEST: Final = 1 << 63


def set_seed(seed: int) -> None:
    """Set the seed of initial weights and of random operators such as dropout, and begin the draws of these anew.

    Their values depend on it, on names, on indices and on how many draws have been made since, never on the cut. As in
    MindSpore it is the seed of ``numpy.random`` as well.

    Parameters
    ----------
    seed : int
        At least 0 and below 2**63.

    Raises
    ------
    ConfigurationError
        For what is no such integer.

    Examples
    --------
    >>> from mpiparallel import Tensor, ops
    >>> def draw():
    ...     return ops.dropout(Tensor([1.0] * 100)).asnumpy().tolist()
    >>> set_seed(1)
    >>> first, second = draw(), draw()
    >>> set_seed(1)
    >>> first == second, first == draw()
    (False, True)
    """
    _begin_anew("set_seed", seed)
    np.random.seed(seed % _NUMPY_SEEDS)


def get_seed() -> int:
    """Return the seed of initial weights and of random operators.

    Returns
    -------
    int
        What ``set_seed`` or ``manual_seed`` has set, 0 unless one has.

    Examples
    --------
    >>> set_seed(7)
    >>> get_seed()
    7
    """
    return all_settings().seed


def manual_seed(seed: int) -> int:
    """Set the seed as ``set_seed`` does, but for that of ``numpy.random``, and return it.

    Parameters
    ----------
    seed : int
        At least 0 and below 2**63.

    Returns
    -------
    int
        The seed.

    Raises
    ------
    ConfigurationError
        For what is no such integer.

    Examples
    --------
    >>> manual_seed(7)
    7
    """
    _begin_anew("manual_seed", seed)
    return seed


def initial_seed() -> int:
    """Return the seed from which the draws began.

    Returns
    -------
    int
        As ``get_seed`` returns it.

    Examples
    --------
    >>> initial_seed() == get_seed()
    True
    """
    return get_seed()


def _begin_anew(where: str, seed: int) -> None:
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < _LARGEST:
        raise ConfigurationError(f"{where}: {seed!r} must be an integer of at least 0 and below 2**63")
    take_settings(replace(all_settings(), seed=seed, draws=0, unnamed=0))
