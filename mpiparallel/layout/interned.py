"""Values of which equal ones are one object."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar
from weakref import WeakValueDictionary

_MOST_CALLS = 1 << 14


class Interned(type):
    """The type of frozen dataclasses whose equal instances are one object, for as long as somebody holds it.

    A graph of thousands of values has few layouts: what is worked out of one is then worked out once. Equality stays
    by value, for what was unpickled or made in two threads at a time may be an object of its own.
    """

    __match_args__: ClassVar[tuple[str, ...]]

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        cls._known: WeakValueDictionary[Any, Any] = WeakValueDictionary()

    @lru_cache(_MOST_CALLS)  # noqa: B019
    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        made = super().__call__(*arguments, **named)
        return cls._known.setdefault(tuple(getattr(made, name) for name in cls.__match_args__), made)
