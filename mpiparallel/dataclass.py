"""Dataclasses whose methods are made when the first of them is called.

Python compiles up to six methods for a dataclass, which takes half a millisecond. For the 150 that a training imports
that was a third of the time of the import, on each rank. Half of them are never made an object of.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, eq: bool = True) -> Any:
        """Make a class a dataclass, as the standard library does, which has InitVar and more to choose from.

        What users make themselves is made by the standard library, so that ``help`` knows its parameters.

        Examples
        --------
        >>> @dataclass(frozen=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(1) == Point(1, 0), Point(2)
        (True, Point(x=2, y=0))
        """
        return partial(_deferred, frozen=frozen, eq=eq) if cls is None else _deferred(cls, frozen, eq)


def _deferred(cls: type[Any], frozen: bool, eq: bool) -> type[Any]:
    """Give a class its fields now, and in the places of its methods what makes them."""
    dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    wanted = ["__init__", "__repr__", *(["__eq__"] if eq else []), *(["__hash__"] if eq and frozen else [])]
    # A class that has an __eq__ of its own was given a __hash__ of None.
    names = [name for name in wanted if cls.__dict__.get(name) is None]
    make = partial(_make, cls, names, {"frozen": frozen, "eq": eq})
    for name in names:
        setattr(cls, name, _first_call(cls, name, make))
    if eq and not frozen and "__hash__" not in cls.__dict__:
        cls.__hash__ = None  # type: ignore[assignment]
    if frozen:
        cls.__setattr__ = _refusal(cls, "__setattr__", "assign to")
        cls.__delattr__ = _refusal(cls, "__delattr__", "delete")
    return cls


def _first_call(cls: type[Any], name: str, make: Callable[[], None]) -> Callable[..., Any]:
    def method(*arguments: Any, **options: Any) -> Any:
        # Ranks that are threads may do so at once: what they make is the same.
        make()
        return getattr(cls, name)(*arguments, **options)

    return method


def _make(cls: type[Any], names: list[str], options: dict[str, bool]) -> None:
    """Give a class the methods of a dataclass that has the same fields."""
    body: dict[str, Any] = {one.name: one for one in dataclasses.fields(cls)}
    body["__annotations__"] = {one.name: one.type for one in dataclasses.fields(cls)}
    for name in ("__module__", "__qualname__", "__post_init__"):
        if hasattr(cls, name):
            body[name] = getattr(cls, name)
    alike: type[Any] = dataclasses.dataclass(type(cls.__name__, (), body), **options)
    for name in names:
        setattr(cls, name, alike.__dict__[name])


def _refusal(cls: type[Any], name: str, what: str) -> Callable[..., None]:
    """Return the method of a frozen class that sets or deletes an attribute."""

    def method(self: Any, attribute: str, *value: Any) -> None:
        if type(self) is cls or attribute in cls.__dataclass_fields__:
            raise dataclasses.FrozenInstanceError(f"cannot {what} field {attribute!r}")
        getattr(super(cls, self), name)(attribute, *value)

    return method
