"""The error for a name that is not here: what is nearest, where it is, or why MindSpore's is missing."""

from __future__ import annotations

import difflib
import dis
import importlib
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Final

from mpiparallel.compatibility.missing_names import reason_for

_FRONTS: Final = ("", "nn", "ops", "train", "context", "communication", "dataset", "common.initializer", "dtype")
"""Where a name that one module lacks may be instead."""


class AbsentNameError(AttributeError):
    """A name that its owner lacks; what to say is found when it is read: most who ask only want to know whether.

    >>> str(AbsentNameError(lambda: "no name")), hasattr(AbsentNameError, "unknown")
    ('no name', False)
    """

    def __init__(self, tell: Callable[[], str]) -> None:
        self._tell = tell

    def __str__(self) -> str:
        return self._tell()

    def __reduce__(self) -> tuple[type[AttributeError], tuple[str]]:
        return AttributeError, (str(self),)


def absent(owner: str, name: str, known: Iterable[str]) -> str:
    """Return what to say of ``owner`` that has no ``name``: the nearest of those ``known``, or why it is not here.

    >>> absent("mpiparallel.nn", "Dens", ["Dense", "Cell"])
    "mpiparallel.nn has no 'Dens'; did you mean 'Dense'?"
    """
    return f"{owner} has no {name!r}; {_hint(owner, name, list(known))}"


def _hint(owner: str, name: str, known: list[str]) -> str:
    elsewhere = _elsewhere(name)
    if elsewhere:
        return f"it is {elsewhere}.{name}"
    same = [one for one in known if one.lower() == name.lower()]
    if same:
        return f"did you mean {same[0]!r}?"
    reason = reason_for(name)
    if reason:
        return f"MindSpore's is not here: {reason}"
    near = difflib.get_close_matches(name, known, 1, 0.75) or difflib.get_close_matches(name.lower(), known, 1, 0.75)
    return f"did you mean {near[0]!r}?" if near else "docs/lookup/from_mindspore.md lists what is here"


def _elsewhere(name: str) -> str | None:
    """Return the public module that has a name, if one has; a name is wrong, so its loading time does not matter."""
    for front in _FRONTS:
        path = f"mpiparallel.{front}".rstrip(".")
        module = importlib.import_module(path)
        if name in (getattr(module, "__all__", None) or vars(module)):
            return path
    return None


def getattr_of(module: str, doors: Iterable[str] = ()) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a public module; its ``doors`` are modules that are loaded on first use.

    What else the module lacks is an AttributeError that says more than Python's own. Where it is imported by name, it
    is an ImportError that says the same.
    """
    places = frozenset(doors)

    def look_up(name: str) -> Any:
        if name in places:
            return importlib.import_module(f"{module}.{name}")
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if _imports_by_name(_asking_frame()):
            raise ImportError(absent(module, name, dir(sys.modules[module])), name=module)
        raise AbsentNameError(lambda: absent(module, name, dir(sys.modules[module])))

    return look_up


def getattr_of_instances(owner: str) -> Callable[[Any, str], Any]:
    """Return the ``__getattr__`` of a class, whose AttributeError names the nearest, or says why it is missing."""

    def look_up(self: Any, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise AbsentNameError(lambda: absent(owner, name, dir(self)))

    return look_up


def _asking_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name in ("look_up", "__getattr__"):
        frame = frame.f_back
    return frame


def _imports_by_name(asking: FrameType | None) -> bool:
    """Tell whether ``from module import name`` asks, which would hide the words of an AttributeError."""
    return asking is not None and dis.opname[asking.f_code.co_code[asking.f_lasti]] == "IMPORT_FROM"
