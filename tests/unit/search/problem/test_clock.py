"""How long a search may take, told by a clock that stands still until it is moved."""

from __future__ import annotations

import time
from math import inf

import pytest

from mpiparallel.search.problem.clock import Clock, TimeOverError


def test_a_search_has_time_until_its_seconds_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock, endless = Clock(5.0), Clock()
    assert (clock.has_time(), clock.seconds_left, endless.seconds_left) == (True, 5.0, inf)
    clock.check()
    now[0] = 104.0
    assert (clock.has_time(), clock.seconds_left) == (True, 1.0)
    now[0] = 105.0
    assert (clock.has_time(), clock.seconds_left) == (False, 0.0)
    with pytest.raises(TimeOverError):
        clock.check()
    assert endless.has_time()
