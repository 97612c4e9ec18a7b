"""Moving a state from one set of layouts to another: a pure plan, and what carries it out."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpiparallel.reshard.live import reshard
    from mpiparallel.reshard.movement import Movement
    from mpiparallel.reshard.options import ReshardOptions
    from mpiparallel.reshard.report import ReshardReport

__all__ = ["Movement", "ReshardOptions", "ReshardReport", "reshard"]

_HOMES = {"Movement": "movement", "ReshardOptions": "options", "ReshardReport": "report", "reshard": "live"}


def __getattr__(name: str) -> Any:
    # Plans are made where there is neither NumPy nor MPI, so the rest is loaded when it is asked for.
    if name in _HOMES:
        return getattr(import_module(f"mpiparallel.reshard.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
