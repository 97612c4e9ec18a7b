"""What is kept for the members of a communicator beside it, such as the communicator of another library."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Freed(Protocol):
    """What holds something that must be given back."""

    def free(self) -> None:
        """Give it back, with the other members."""


@runtime_checkable
class Abandoned(Protocol):
    """What can be given up where members have died."""

    def abandon(self) -> None:
        """Give it up, without the other members."""


def free_all(kept: dict[str, Any]) -> None:
    """Free what can be freed, in the order of names, which is the same on all members."""
    for name in sorted(kept):
        one = kept.pop(name)
        if isinstance(one, Freed):
            one.free()


def abandon_all(kept: dict[str, Any]) -> None:
    """Give up what would wait for members that have died.

    >>> kept = {"plain": 1}
    >>> abandon_all(kept)
    >>> kept
    {}
    """
    while kept:
        _, one = kept.popitem()
        if isinstance(one, Abandoned):
            one.abandon()
