"""The world of the running program: each process has one, and each thread rank has its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import CommunicationError


class _World(NamedTuple):
    communicator: Communicator
    groups: dict[str, Communicator]


_world: ContextVar[_World | None] = ContextVar("mpiparallel world", default=None)
_observer: ContextVar[Callable[[], None] | None] = ContextVar("observer of the mpiparallel world", default=None)


@contextmanager
def observed(tell: Callable[[], None]) -> Iterator[None]:
    """Call ``tell`` whenever somebody looks at the world within a ``with`` block."""
    token = _observer.set(tell)
    try:
        yield
    finally:
        _observer.reset(token)


def initialised() -> bool:
    """Tell whether this context has a world."""
    return _seen() is not None


def current() -> Communicator:
    """Return the communicator of all ranks.

    Raises ``CommunicationError`` before ``mpiparallel.communication.init()``, and in a thread that was started without
    the context of its rank.
    """
    return _get().communicator


def named_groups() -> dict[str, Communicator]:
    """Return the groups of the current world by the names that the program gave them."""
    return _get().groups


def set_current(communicator: Communicator | None) -> None:
    """Make ``communicator`` the current world, with no named groups yet; ``None`` leaves no world."""
    _world.set(None if communicator is None else _World(communicator, {}))


@contextmanager
def use(communicator: Communicator) -> Iterator[Communicator]:
    """Make ``communicator`` the current world within a ``with`` block."""
    token = _world.set(_World(communicator, {}))
    try:
        yield communicator
    finally:
        _world.reset(token)


def _seen() -> _World | None:
    tell = _observer.get()
    if tell is not None:
        tell()
    return _world.get()


def _get() -> _World:
    world = _seen()
    if world is None:
        raise CommunicationError(
            "there is no world of ranks here: call mpiparallel.communication.init() first; "
            "a thread that a rank starts must run in contextvars.copy_context()"
        )
    return world
