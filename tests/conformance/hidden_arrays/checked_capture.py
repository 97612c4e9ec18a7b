"""Graphs that are compared with what would be recorded now, each time before they are replayed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from mpiparallel.backend.cupy_backend import CupyBackend
from mpiparallel.backend.protocol import AddressTable
from mpiparallel.errors import CaptureError
from tests.conformance.hidden_arrays.array import HiddenArray
from tests.conformance.hidden_arrays.stream import HiddenGraph


class BakedInError(AssertionError):
    """A number that has changed since a graph was recorded, which does its work with the old one."""


def check_replays(patch: pytest.MonkeyPatch) -> None:
    """Let each replay be compared with a new recording first; what differs raises BakedInError."""
    record = CupyBackend.capture

    def capture(self: CupyBackend, work: Callable[[], object]) -> Callable[[], object]:
        replay = record(self, work)

        def checked() -> None:
            _compare(_graph_of(replay), _graph_of(record(self, work)))
            replay()

        return checked

    patch.setattr(CupyBackend, "capture", capture)


def capture_nothing(patch: pytest.MonkeyPatch) -> None:
    """Let the backend refuse to record anything."""

    def capture(_self: CupyBackend, _work: Callable[[], object]) -> Callable[[], object]:
        raise CaptureError("is not to be recorded")

    patch.setattr(CupyBackend, "capture", capture)


def _graph_of(replay: Any) -> HiddenGraph:
    found = replay.func.__self__
    assert isinstance(found, HiddenGraph)
    return found


def _compare(recorded: HiddenGraph, now: HiddenGraph) -> None:
    then, later = ([_shown(call.shown) for call in graph.calls] for graph in (recorded, now))
    if len(then) != len(later):
        raise BakedInError(f"a graph has {len(then)} calls, and now it would have {len(later)}")
    for one, other in zip(then, later, strict=True):
        if one != other:
            raise BakedInError(f"a graph has the call {one}, and now it would be {other}")


def _shown(value: Any) -> Any:
    """Return what tells an argument from others: of an array where it is, not what is in it."""
    if isinstance(value, HiddenArray):
        return value.data.ptr, value.shape, value.strides, str(value.dtype)
    if isinstance(value, AddressTable):
        return _shown(value.arrays)
    if isinstance(value, partial):
        return _shown((value.func, value.args, tuple(value.keywords.items())))
    if isinstance(value, (tuple, list)):
        return tuple(_shown(one) for one in value)
    return value if isinstance(value, (int, float, str, bool, type(None))) or callable(value) else repr(value)
