"""A result that is on its way is read once it is there, and each reader has a copy of its own."""

from __future__ import annotations

import numpy as np
import pytest

from mpiparallel.graph.execution.late_values import LateValue


class Arriving:
    """An event at which a device has copied 7 to the host."""

    def __init__(self, host: np.ndarray, done: bool) -> None:
        self.host, self.done, self.waits = host, done, 0

    def synchronize(self) -> None:
        self.host[...] = 7.0
        self.done = True
        self.waits += 1


@pytest.mark.parametrize(("done", "waits", "wanted"), [(True, 0, 1.0), (False, 1, 7.0)])
def test_a_reader_waits_only_for_what_is_not_there(done: bool, waits: int, wanted: float) -> None:
    host = np.ones(2)
    event = Arriving(host, done)
    late = LateValue(host, event)
    assert late.is_there == done
    first, second = late.read(), late.read()
    first[...] = 0.0
    assert (second.tolist(), host.tolist(), event.waits) == ([wanted] * 2, [wanted] * 2, waits)
    assert late.is_there
