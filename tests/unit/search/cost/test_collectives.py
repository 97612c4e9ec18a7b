"""The seconds of collectives against the textbook's formulas."""

from __future__ import annotations

import pytest

from mpiparallel.search.cost.collectives import (
    Group,
    all_reduce_time,
    exchange_time,
    gather_time,
    reduce_scatter_time,
)
from mpiparallel.search.machine.machine import Link, Machine

A, B, C = 1e-5, 1e9, 2e9
MACHINE = Machine(inside=Link(A, B), between=Link(10 * A, 4 * B), reduction_rate=C)
TIMES = (all_reduce_time, gather_time, reduce_scatter_time, exchange_time)


@pytest.mark.parametrize("timed", TIMES)
def test_one_rank_needs_no_time(timed) -> None:
    assert timed(MACHINE, Group(1, 1), 1e6) == 0


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_gather_takes_a_latency_for_each_doubling_and_all_bytes_but_the_own(ranks) -> None:
    wanted = {2: 1, 4: 2, 8: 3}[ranks] * A + (ranks - 1) / ranks * 8e6 / B
    assert gather_time(MACHINE, Group(1, ranks), 8e6) == pytest.approx(wanted)


def test_a_small_sum_is_by_doubling_and_a_large_one_by_scattering() -> None:
    assert all_reduce_time(MACHINE, Group(1, 8), 8) == pytest.approx(3 * (A + 8 / B + 8 / C))
    large = 2 * (3 * A + 7 / 8 * 8e8 / B) + 7 / 8 * 8e8 / C
    assert all_reduce_time(MACHINE, Group(1, 8), 8e8) == pytest.approx(large)


def test_groups_that_cross_hosts_side_by_side_share_the_card() -> None:
    """Two hosts of 4 ranks; one group of each place on a host: together they send as much as one group of all would."""
    alone, together = (gather_time(MACHINE, Group(2, 1, beside), 8e6) for beside in (1, 4))
    assert alone == pytest.approx(10 * A + 4e6 / (4 * B))
    assert together == pytest.approx(10 * A + 4 * 4e6 / (4 * B))


@pytest.mark.parametrize("timed", TIMES)
def test_more_bytes_and_a_slower_machine_never_take_less(timed) -> None:
    slow = Machine(inside=Link(2 * A, B / 2), between=Link(20 * A, B), reduction_rate=C / 2)
    for group in (Group(1, 2), Group(1, 8), Group(2, 4), Group(16, 1, 8)):
        times = [timed(MACHINE, group, size) for size in (0, 1, 1e3, 1e6, 1e9)]
        assert times == sorted(times)
        assert all(timed(slow, group, size) >= timed(MACHINE, group, size) for size in (0, 1, 1e3, 1e6, 1e9))
