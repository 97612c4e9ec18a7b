"""The place of the random draws, as a tensor that can be kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mpiparallel.context.settings import all_settings, take_settings
from mpiparallel.errors import ConfigurationError
from mpiparallel.ops.tensor_methods import Tensor


def get_rng_state() -> Tensor:
    """Return the seed and how many draws have been made since it was set, int64 [2], for ``set_rng_state``.

    A draw is one run of a network with random operators, or one random operator that is computed at once. The steps of
    ``Model`` and ``TrainOneStepCell`` count for themselves.

    Returns
    -------
    Tensor
        int64, (2,): seed and draws.

    Examples
    --------
    >>> get_rng_state().shape
    (2,)
    """
    settings = all_settings()
    return Tensor(np.array([settings.seed, settings.draws], np.int64))


def set_rng_state(state: Any) -> None:
    """Let random operators go on from where ``get_rng_state`` was called.

    Parameters
    ----------
    state : Tensor or array
        What it has returned.

    Raises
    ------
    ConfigurationError
        For anything else.

    Examples
    --------
    >>> from mpiparallel import ops
    >>> state = get_rng_state()
    >>> first = ops.dropout(Tensor([1.0] * 100)).asnumpy().tolist()
    >>> set_rng_state(state)
    >>> first == ops.dropout(Tensor([1.0] * 100)).asnumpy().tolist()
    True
    """
    array = np.asarray(state.asnumpy() if isinstance(state, Tensor) else state)
    if array.shape != (2,) or array.dtype.kind not in "iu" or (array < 0).any():
        raise ConfigurationError(f"set_rng_state: {state!r} is no state; give what get_rng_state has returned")
    take_settings(replace(all_settings(), seed=int(array[0]), draws=int(array[1])))
