"""The host as a device: its copies are done when they have begun."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel.backend.numpy_backend import HostStream, NumpyBackend

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_copies_to_and_from_the_host_are_of_the_first_to_the_second() -> None:
    backend = NumpyBackend()
    copies = (
        backend.copy_to_host,
        backend.copy_from_host,
        backend.start_copy_to_host,
        backend.start_copy_from_host,
    )
    for copy in copies:
        source, target = VALUES.copy(), np.zeros((2, 3), np.float32)
        copy(source, target)
        np.testing.assert_array_equal(target, VALUES)
        np.testing.assert_array_equal(source, VALUES)
        # It is no view.
        source += 1
        np.testing.assert_array_equal(target, VALUES)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000])
def test_memory_starts_on_a_border_and_has_the_bytes_that_were_asked_for(count: int) -> None:
    backend = NumpyBackend()
    found = [backend.empty(count) for _ in range(5)]
    for memory in found:
        assert (memory.shape, memory.dtype, backend.address(memory) % 64) == ((count,), np.uint8, 0)
        memory[:] = 7
    assert backend.host_array((2, 3), np.int16).shape == (2, 3)
    assert backend.host_array((2, 3), np.int16).dtype == np.int16


def test_what_comes_from_the_host_is_a_copy_in_c_order_and_what_goes_there_is_none_where_it_can() -> None:
    backend, turned = NumpyBackend(), VALUES.T
    copy = backend.from_host(turned)
    np.testing.assert_array_equal(copy, turned)
    assert copy.flags.c_contiguous
    assert not np.shares_memory(backend.from_host(VALUES), VALUES)
    assert backend.to_host(VALUES) is VALUES
    assert backend.to_host(turned).flags.c_contiguous
    np.testing.assert_array_equal(backend.to_host(turned), turned)


def test_the_host_is_a_device_that_nobody_waits_for() -> None:
    backend, stream = NumpyBackend(), HostStream()
    work = list[int]().clear
    assert backend.capture(work) is work
    assert (backend.name, backend.array_module, backend.is_asynchronous) == ("cpu", np, False)
    assert (backend.kernels, backend.convolutions, backend.attention, backend.links) == (None, None, None, None)
    assert backend.convolves_in_tf32 is False
    with stream as inside:
        assert inside is stream
    assert stream.record() is stream
    assert stream.done is True
    assert VALUES[0].ctypes.data == backend.address(VALUES)
