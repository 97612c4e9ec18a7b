"""Streams, events and captured work of a backend, on arrays that hide their elements: no GPU is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.cupy_backend import CupyBackend
from mpiparallel.backend.numpy_backend import NumpyBackend
from mpiparallel.errors import CaptureError
from tests.conformance.hidden_arrays.backend import hidden_backend, install
from tests.conformance.hidden_arrays.stream import CapturedError, MissingEventError, OverwrittenError


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> CupyBackend:
    install(monkeypatch)
    return hidden_backend()


def doubling(backend: Any, x: Any) -> Callable[[], object]:
    return lambda: backend.array_module.add(x, x, out=x)


@pytest.mark.parametrize("kind", ["host", "device"])
def test_captured_work_is_done_when_it_is_called_with_the_memory_as_it_is_then(kind: str, backend: Any) -> None:
    used = backend if kind == "device" else NumpyBackend()
    x = used.from_host(np.array([1.0, 2.0]))
    replay = used.capture(doubling(used, x))
    assert used.to_host(x).tolist() == [1, 2]
    replay()
    used.copy_from_host(np.array([5.0, 6.0]), x)
    replay()
    assert used.to_host(x).tolist() == [10, 12]


FAULTS: dict[str, Callable[[Any, Any], object]] = {
    "a copy to the host": lambda backend, x: backend.copy_to_host(x, np.empty(2)),
    "a look from the host": lambda backend, x: backend.to_host(x),
    "a copy from the host": lambda backend, x: backend.copy_from_host(np.ones(2), x),
    "a copy of a new array": lambda backend, x: backend.from_host(np.ones(2)),
    "a copy from pinned memory": lambda backend, x: backend.start_copy_from_host(np.ones(2), x),
    "new memory": lambda backend, x: backend.empty(8),
    "new pinned memory": lambda backend, x: backend.host_array((2,), np.float64),
    "a temporary array": lambda backend, x: backend.array_module.add(x, x),
    "a wait": lambda backend, x: backend.synchronize(),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_the_host_has_a_part_in_is_not_captured_and_work_can_be_captured_afterwards(
    fault: str, backend: CupyBackend
) -> None:
    x = backend.from_host(np.array([1.0, 2.0]))
    with pytest.raises(CaptureError):
        backend.capture(lambda: FAULTS[fault](backend, x))
    backend.capture(doubling(backend, x))()
    assert backend.to_host(x).tolist() == [2, 4]


def test_a_wait_behind_the_backends_back_and_memory_of_the_pool_are_found(backend: CupyBackend) -> None:
    x = backend.from_host(np.array([1.0, 2.0]))
    with pytest.raises(CapturedError):
        backend.capture(backend.array_module.cuda.get_current_stream().synchronize)
    stream: Any = backend.compute
    stream.begin_capture()
    with pytest.raises(CapturedError):
        backend.array_module.add(x, x)
    stream.end_capture()


def crossing(backend: CupyBackend, waits: bool, is_waited_for: bool) -> list[float]:
    """Add on one stream what was made on the other, with the events that are asked for."""
    x = backend.from_host(np.ones(2))
    y = backend.from_host(np.zeros(2))
    backend.communication.wait_event(backend.compute.record())
    backend.array_module.add(x, x, out=x)
    if waits:
        backend.communication.wait_event(backend.compute.record())
    with backend.communication:
        backend.array_module.add(x, x, out=y)
    if is_waited_for:
        backend.compute.wait_event(backend.communication.record())
    backend.array_module.add(x, y, out=x)
    return list(backend.to_host(x))


def test_streams_that_wait_for_each_other_share_memory(backend: CupyBackend) -> None:
    assert crossing(backend, waits=True, is_waited_for=True) == [6, 6]


@pytest.mark.parametrize(("waits", "is_waited_for"), [(False, True), (True, False)])
@pytest.mark.parametrize("captured", [False, True])
def test_a_missing_event_between_the_streams_is_found(
    waits: bool, is_waited_for: bool, captured: bool, backend: CupyBackend
) -> None:
    if not captured:
        with pytest.raises(MissingEventError):
            crossing(backend, waits, is_waited_for)
        return
    x, y = (backend.from_host(np.ones(2)) for _ in range(2))
    backend.compute.synchronize()

    def work() -> None:
        backend.array_module.add(x, x, out=x)
        if waits:
            backend.communication.wait_event(backend.compute.record())
        with backend.communication:
            backend.array_module.add(x, x, out=y)
        if is_waited_for:
            backend.compute.wait_event(backend.communication.record())
        backend.array_module.add(x, y, out=x)

    # Without an event CUDA takes a stream into no capture, nor lets it go from one.
    with pytest.raises(CapturedError):
        backend.capture(work)


def test_pinned_memory_may_be_written_to_once_its_copy_has_been_waited_for(backend: CupyBackend) -> None:
    staged, x = backend.host_array((2,), np.float64), backend.from_host(np.zeros(2))
    staged[...] = 1
    backend.start_copy_from_host(staged, x)
    backend.compute.record().synchronize()
    staged[...] = 2
    backend.start_copy_from_host(staged, x)
    staged[...] = 3
    with pytest.raises(OverwrittenError):
        backend.compute.record().synchronize()
