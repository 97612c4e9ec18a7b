"""What MindSpore and this package both have under one name, and the parameters of each."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

import mpiparallel

FOLDERS = (
    "",
    "amp",
    "common.initializer",
    "communication",
    "context",
    "dataset",
    "dataset.text",
    "dataset.transforms",
    "dataset.vision",
    "nn",
    "ops",
    "train",
)
CLASSES_WITH_METHODS = ("Model", "Tensor", "Parameter", "dataset.Dataset", "nn.Cell", "nn.Metric")
_GENERAL = {"args", "kwargs"}


@cache
def ours() -> dict[str, Callable[..., Any]]:
    """Return each public callable of this package by its first name in it, methods of some classes included."""
    found = {
        f"{folder}.{name}".lstrip("."): value
        for folder in FOLDERS
        for name, value in _public(_module("mpiparallel", folder))
        if callable(value) and getattr(value, "__module__", "").startswith("mpiparallel")
    }
    for kind in CLASSES_WITH_METHODS:
        methods = ((name, value) for name, value in _public(found[kind]) if inspect.isfunction(value))
        found |= {f"{kind}.{name}": method for name, method in methods}
    once: dict[int, str] = {}
    return {name: value for name, value in found.items() if once.setdefault(id(value), name) == name}


@cache
def at(package: str, name: str) -> Any:
    """Return what stands at ``name`` in a package; None where nothing does."""
    parts = name.split(".")
    for split in range(len(parts), -1, -1):
        try:
            value: Any = _module(package, ".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for part in parts[split:]:
            value = getattr(value, part, None)
        return value
    return None


def _module(package: str, folder: str) -> ModuleType:
    if folder == "amp" and package == mpiparallel.__name__:
        return mpiparallel.amp
    return importlib.import_module(f"{package}.{folder}".rstrip("."))


def _public(holder: Any) -> Iterator[tuple[str, Any]]:
    for name in sorted(dir(holder)):
        if not name.startswith("_"):
            value = getattr(holder, name)
            if not inspect.ismodule(value):
                yield name, value


def parameters(function: Callable[..., Any]) -> list[str] | None:
    """Return the parameters as ``name``, ``name=default`` or ``*``, without self; None where they are not told.

    A decorator's ``(*args, **kwargs)`` stands for those of the function that it wraps.
    """
    told = function.__init__ if inspect.isclass(function) else function
    told = _wrapped(told)
    try:
        listed = list(inspect.signature(told).parameters.values())
    except (TypeError, ValueError):
        return None
    if listed and listed[0].name == "self":
        listed = listed[1:]
    words: list[str] = []
    for one in listed:
        if one.kind is one.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        if one.kind is one.VAR_POSITIONAL:
            words.append("*")
        elif one.kind is one.VAR_KEYWORD:
            words.append("**")
        else:
            words.append(one.name if one.default is one.empty else f"{one.name}={one.default!r}")
    return words


def _wrapped(function: Any) -> Any:
    inner = inspect.unwrap(function)
    names = list(getattr(inner, "__code__", None).co_varnames) if hasattr(inner, "__code__") else []
    if set(names) >= _GENERAL and inner.__closure__:
        inside = [cell.cell_contents for cell in inner.__closure__ if inspect.isfunction(cell.cell_contents)]
        if len(inside) == 1:
            return _wrapped(inside[0])
    return inner
