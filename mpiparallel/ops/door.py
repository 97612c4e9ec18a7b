"""What a door to several modules offers: it is read from them, so that a name is written once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

_SERVING: Final = ("TYPE_CHECKING", "annotations", "getattr_of")


def functions_of(*modules: ModuleType) -> dict[str, Callable[..., Any]]:
    """Return the public functions that are defined in modules, by all of their names.

    >>> from mpiparallel.ops.elementwise import clipping
    >>> sorted(functions_of(clipping))
    ['clip_by_global_norm', 'clip_by_norm', 'clip_by_value']
    """
    return {
        name: item
        for module in modules
        for name, item in vars(module).items()
        if inspect.isfunction(item) and item.__module__ == module.__name__ and not name.startswith("_")
    }


def public(door: ModuleType) -> dict[str, Any]:
    """Return what a door hands out, without what serves it: modules, the names of Python itself, and private ones."""
    return {
        name: item
        for name, item in vars(door).items()
        if not (name.startswith("_") or inspect.ismodule(item) or name in _SERVING)
    }
