"""What a rank spends counts by the pace of its core, told by a product of matrices."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

import pytest

from mpiparallel.communication.threads import alone, run_world
from mpiparallel.search.machine import calibration, stopwatch
from mpiparallel.search.machine.stopwatch import Pace, Stopwatch


class Core:
    """A core whose pace changes each time that work ends; it has a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, paces: tuple[float, ...]) -> None:
        self.now, self.paces = 0.0, cycle(paces)
        self.pace = next(self.paces)
        monkeypatch.setattr(stopwatch, "product_seconds", self.product)

    def compute(self, seconds: float) -> None:
        self.now += seconds * self.pace

    def product(self, clock: Callable[[], float]) -> float:
        seconds, self.pace = 1e-3 * self.pace, next(self.paces)
        return seconds


@pytest.mark.parametrize("paces", [(1.0,), (1.0, 1.5, 0.8), (3.0, 3.0, 1.0)])
def test_work_counts_the_same_at_any_pace_of_a_core(monkeypatch: pytest.MonkeyPatch, paces: tuple[float, ...]) -> None:
    core = Core(monkeypatch, paces)
    watch = Stopwatch(lambda: core.now, 1e-3)
    found = calibration._timed(alone(), lambda: core.compute(0.25), watch, calls=4, times=7)
    assert found == pytest.approx(0.25)


def test_by_the_clock_the_least_counts_and_of_what_a_processor_spends_the_median() -> None:
    assert Stopwatch().of_some([3.0, 1.0, 2.0, 9.0, 4.0]) == 1.0
    assert Stopwatch(product=1e-3).of_some([3.0, 1.0, 2.0, 9.0, 4.0]) == 3.0
    assert Stopwatch().weight() == 1.0


def test_ranks_share_the_median_of_what_was_seen_as_the_usual_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = iter([2e-3, 2e-3, 2e-3, 2e-3, 9e-3, 9e-3, 9e-3])
    monkeypatch.setattr(stopwatch, "product_seconds", lambda clock: next(seen))
    pace = Pace()
    pace.sample()
    pace.sample()
    assert pace.watch(alone()).product == pace.usual == 2e-3
    monkeypatch.undo()
    shared = {watch.product for watch in run_world(3, lambda everyone: Pace().watch(everyone))}
    assert len(shared) == 1
    assert min(shared) > 0
