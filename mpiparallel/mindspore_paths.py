"""MindSpore's module paths that are other modules here: importing one gives what those offer.

>>> from mpiparallel.nn.optim.momentum import Momentum
>>> from mpiparallel import nn
>>> Momentum is nn.Momentum
True
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from mpiparallel.absent_names import getattr_of

PATHS: Final[dict[str, tuple[str, ...]]] = {
    "common.api": ("context.just_in_time",),
    "common.seed": ("context",),
    "dataset.engine": ("dataset",),
    "nn.layer": ("nn",),
    "nn.loss.loss": ("nn.loss",),
    "nn.optim": ("nn.optimizer", "nn"),
    "nn.wrap.cell_wrapper": ("nn.wrap", "nn"),
    "nn.wrap.grad_reducer": ("nn.wrap",),
    "ops.function": ("ops.functional",),
    "ops.operations.comm_ops": ("ops.operations", "ops.virtual_dataset"),
    "ops.operations": ("ops.operations",),
    "ops.primitive": ("ops.primitive_names",),
    "parallel.nn": ("nn.transformer", "nn"),
}
"""A path of MindSpore, and the modules here that have its names. What begins with a path and a dot leads there too."""

_PACKAGE: Final = __name__.partition(".")[0]


def places_of(path: str) -> tuple[str, ...] | None:
    """Return the modules here that have the names of a MindSpore path, None for a path that is none of these."""
    parts = path.split(".")
    if parts[0] != _PACKAGE:
        return None
    found = (PATHS.get(".".join(parts[1:stop])) for stop in range(len(parts), 1, -1))
    return next((tuple(f"{_PACKAGE}.{place}" for place in places) for places in found if places), None)


class _Door(Loader):
    """Makes a module that looks names up in others."""

    def __init__(self, places: tuple[str, ...]) -> None:
        self._places = places

    def exec_module(self, module: ModuleType) -> None:
        modules = [importlib.import_module(place) for place in self._places]
        refuse = getattr_of(module.__name__)
        offered = sorted({name for one in modules for name in getattr(one, "__all__", ())})

        def look_up(name: str) -> Any:
            # Files inside the places are no names of MindSpore's.
            found = (vars(one)[name] for one in modules if name in vars(one))
            value = next((item for item in found if not isinstance(item, ModuleType)), None)
            return refuse(name) if value is None else value

        vars(module).update(
            __getattr__=look_up, __all__=offered, __doc__=f"MindSpore's door to {' and '.join(self._places)}."
        )


class _Finder(MetaPathFinder):
    """Finds the paths of MindSpore that are other modules here, after Python has looked for a file."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        places = places_of(fullname)
        if places is None:
            return None
        return importlib.util.spec_from_loader(fullname, _Door(places), is_package=True)


def install() -> None:
    """Let Python find the paths; once in a process."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
