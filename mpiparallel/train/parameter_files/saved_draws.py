"""How many random draws have been made, kept beside the parameters in a file, so that dropout goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from mpiparallel.context.settings import all_settings, take_settings
from mpiparallel.errors import CheckpointError
from mpiparallel.graph.tensor import Tensor

DRAWS: Final = "random_draws"
"""Their name among the parameters, where any have been made."""


def draws_so_far() -> dict[str, np.ndarray[Any, Any]]:
    """Return what a file is to keep of the draws: nothing where none have been made."""
    draws = all_settings().draws
    return {DRAWS: np.array(draws, np.int64)} if draws else {}


def draws_in(parameters: Mapping[str, Any]) -> int | None:
    """Return what a file has kept of the draws; None for nothing. Raises CheckpointError for no such number."""
    if DRAWS not in parameters:
        return None
    kept = parameters[DRAWS]
    array = np.asarray(kept.asnumpy() if isinstance(kept, Tensor) else kept)
    if array.size != 1 or array.dtype.kind not in "iu" or array.min() < 0:
        raise CheckpointError(f"{DRAWS!r} is {array.dtype}{list(array.shape)}; it must be one integer of at least 0")
    return int(array.reshape(()))


def go_on_from(draws: int) -> None:
    """Set the place in the random stream: the next draw is the one after ``draws`` of the seed that is set."""
    take_settings(replace(all_settings(), draws=draws))
