"""What calibration makes of a clock that ticks once each time it is read: rates that are known by hand."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import alone, run_world
from mpiparallel.search.machine import calibration, stopwatch
from mpiparallel.search.machine.calibration import measure
from mpiparallel.search.machine.machine import COLLECTIVES, Machine

SIZES = (1 << 10, 1 << 11, 1 << 13)
SMALL = {
    "_EXTENTS": (8, 16, 24),
    "_THIN": 2,
    "_LARGE": 1 << 16,
    "_SIZES": SIZES,
    "_MESSAGE": 1 << 12,
    "_CALLED_BYTES": 1 << 12,
    "_COPIED": 1 << 10,
    "_COMPUTED": (8, 8, 8),
}
"""Less is computed than in earnest, as the clock does not mind."""


@pytest.fixture(autouse=True, scope="module")
def ticking() -> Iterator[None]:
    """All that a rank does takes a second of its processor, however much that is."""
    ticks: Counter[int] = Counter()

    def read() -> float:
        ticks[threading.get_ident()] += 1
        return float(ticks[threading.get_ident()])

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPIPARALLEL_JIT", "0")
        patch.setattr(time, "thread_time", read)
        patch.setattr(stopwatch, "EXTENT", 8)
        patch.setattr(calibration, "blas_threads", lambda: 1)
        for name, size in SMALL.items():
            patch.setattr(calibration, name, size)
        yield


@pytest.fixture(scope="module")
def of_one(ticking: None) -> Machine:
    return measure(alone())


def test_rates_are_what_is_done_in_a_second_of_both_ends_of_what_is_moved(of_one: Machine) -> None:
    assert (of_one.hosts, of_one.ranks_per_host, of_one.collectives, of_one.kernels) == (1, 1, (), ())
    assert (of_one.inside, of_one.between, of_one.resuming) == (Machine().inside, Machine().between, 0.0)
    # 200 additions of 4,096 numbers, and 200 of one.
    assert of_one.operation_rate == pytest.approx(200 * 4096)
    assert of_one.launch == pytest.approx(1 / 200)
    # 64 KiB are copied, so as many are read and written; of a sum they count once.
    assert of_one.memory_bandwidth == pytest.approx(2 * 2**16)
    assert of_one.reduction_rate == pytest.approx(2**16)


def test_a_product_counts_as_one_of_the_three_that_a_step_makes_of_it(of_one: Machine) -> None:
    products = dict(of_one.products)
    assert [*products] == [2.0 * extent**3 for extent in (8, 16, 24)]
    # A thin product seems to take as long as a square one here, so half of each goes to its matrices at most.
    # Of 24 rows 128 products are made in a second, of which each counts as three.
    assert products[2.0 * 24**3] == pytest.approx(2.0 * 24**3 * 3 * 2 * 128)


def test_ranks_that_share_cores_are_measured_by_what_all_of_them_spend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "shared_cores", lambda host: 2)
    asked: list[int] = []

    def on_rank(everyone: Communicator) -> Machine:
        return measure(everyone, lambda: asked.append(everyone.rank) or ())

    first, *others = run_world(6, on_rank)
    # Kernels are measured by a rank for each core.
    assert sorted(asked) == [0, 1]
    assert (first.hosts, first.ranks_per_host, first.cores, first.turns) == (1, 6, 2, 3.0)
    assert [(one.kind, one.ranks) for one in first.collectives] == [(kind, n) for n in (2, 6) for kind in COLLECTIVES]
    for one in first.collectives:
        # Six ranks spend a second each on two cores, in four calls of short messages, in two or one of long ones.
        assert [seconds for _, seconds in one.times] == pytest.approx([6 / 2 / 4, 6 / 2 / 2, 6 / 2])
        part = (one.ranks - 1) / one.ranks if one.kind == "exchange" else 1.0
        assert [size for size, _ in one.times] == pytest.approx([part * size for size in SIZES], rel=0.4)
    # Three rounds of messages, measured in five calls.
    assert first.inside.latency == pytest.approx(6 / 2 / 5 / 3)
    assert all(one.collectives == first.collectives for one in others)
