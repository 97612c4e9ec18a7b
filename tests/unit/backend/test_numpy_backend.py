"""The host as a device: its copies are done when they have begun."""

from __future__ import annotations

import numpy as np

from mpiparallel.backend.numpy_backend import NumpyBackend

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
