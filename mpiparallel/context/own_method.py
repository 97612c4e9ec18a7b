"""A method of an object that keeps it, and that does not keep the object: that is freed when nobody else has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakMethod


class OwnMethod:
    """Calls a method of an object for as long as that is there; equal where object and method are the same.

    Raises ReferenceError once the object is gone.

    >>> class Counter:
    ...     def one(self):
    ...         return 1
    >>> counter = Counter()
    >>> OwnMethod(counter.one)(), OwnMethod(counter.one) == OwnMethod(counter.one)
    (1, True)
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = WeakMethod(method)
        self._hash = hash(method)

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        return self.bound()(*inputs, **options)

    def bound(self) -> Callable[..., Any]:
        """Return the method itself, which keeps its object."""
        method = self._method()
        if method is None:
            raise ReferenceError("the object of this method is gone")
        return method

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnMethod) and self._method == other._method

    def __hash__(self) -> int:
        return self._hash
