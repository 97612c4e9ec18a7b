"""How a model is told to feed batches: what must be a count, and what changes nothing."""

from __future__ import annotations

from typing import Any, Final

from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.errors import ConfigurationError

_FED_ALIKE: Final = "batches are fed one by one, and sunk batches give the same numbers"
_WITHOUT_EFFECT: Final[dict[str, tuple[Any, str]]] = {
    "callbacks": (None, "an evaluation has no moments that callbacks are called at"),
    "dataset_sink_mode": (True, _FED_ALIKE),
    "sink_mode": (True, _FED_ALIKE),
    "sink_size": (-1, _FED_ALIKE),
    "epoch": (1, "what is compiled is one step"),
}


def remark_on_feeding(where: str, **given: Any) -> None:
    """Say once of each argument that ``where`` takes it without effect; nothing is said of its default.

    >>> remark_on_feeding("Model.build", sink_size=-1, epoch=1)
    """
    for name, value in given.items():
        default, why = _WITHOUT_EFFECT[name]
        no_effect(where, name, value, why, default)


def check_counts(epoch: int, initial_epoch: int, sink_size: int) -> None:
    """Raise ConfigurationError for a count that ``Model.train`` cannot have.

    >>> check_counts(epoch=3, initial_epoch=1, sink_size=-1)
    """
    if not isinstance(epoch, int) or isinstance(epoch, bool) or epoch < 1:
        raise ConfigurationError(f"Model.train: epoch {epoch!r} must be an integer of at least 1")
    if not isinstance(initial_epoch, int) or isinstance(initial_epoch, bool) or not 0 <= initial_epoch < epoch:
        raise ConfigurationError(
            f"Model.train: initial_epoch {initial_epoch!r} must be an integer from 0 and below epoch {epoch}, the last "
            "one"
        )
    if not isinstance(sink_size, int) or isinstance(sink_size, bool) or sink_size == 0 or sink_size < -1:
        raise ConfigurationError(f"Model.train: sink_size {sink_size} must be -1 or at least 1")
