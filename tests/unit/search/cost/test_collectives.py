"""The seconds of collectives against the textbook's formulas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpiparallel.search.cost.collectives import (
    Group,
    all_reduce_time,
    exchange_time,
    gather_time,
    reduce_scatter_time,
)
from mpiparallel.search.machine.machine import COLLECTIVES, CollectiveTimes, Link, Machine

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


MEASURED = Machine(
    inside=Link(A, B),
    between=Link(10 * A, 4 * B),
    collectives=tuple(
        CollectiveTimes(kind, ranks, ((1e3, ranks * number * A), (1e6, ranks * number * 100 * A)))
        for number, kind in enumerate(COLLECTIVES, 1)
        for ranks in (8, 2)
    ),
)


@pytest.mark.parametrize("place", range(4))
def test_inside_a_host_a_collective_takes_what_was_measured_of_its_kind(place) -> None:
    kind, timed = COLLECTIVES[place], (all_reduce_time, reduce_scatter_time, gather_time, exchange_time)[place]
    unit = (place + 1) * A
    assert timed(MEASURED, Group(1, 8), 1e3) == pytest.approx(8 * unit)
    assert timed(MEASURED, Group(1, 8), 1) == pytest.approx(8 * unit)
    assert timed(MEASURED, Group(1, 8), (1e3 + 1e6) / 2) == pytest.approx(8 * unit * 50.5)
    assert timed(MEASURED, Group(1, 2), 5e6) == pytest.approx(2 * unit * 500)
    # Half way between 2 and 8, as doublings are counted.
    assert timed(MEASURED, Group(1, 4), 1e3) == pytest.approx(5 * unit)
    without = replace(MEASURED, collectives=tuple(one for one in MEASURED.collectives if one.kind != kind))
    assert timed(without, Group(1, 8), 1e3) == timed(Machine(inside=Link(A, B)), Group(1, 8), 1e3)


def test_between_hosts_the_part_inside_is_as_measured() -> None:
    card = 10 * A + 5e5 / (4 * B / 2)
    assert gather_time(MEASURED, Group(2, 2), 2e6) == pytest.approx(2 * 3 * 200 * A + card)


@pytest.mark.parametrize("group", [Group(1, 4), Group(3, 1), Group(2, 4), Group(2, 3, 2)])
def test_an_exchange_takes_the_time_of_a_message_from_each_other_rank(group) -> None:
    received, wanted = 6e6, 0.0
    for rank in range(1, group.size):
        inside = rank < group.on_host
        rate = B if inside else 4 * B / (group.on_host * group.beside)
        wanted += (A if inside else 10 * A) + received / (group.size - 1) / rate
    assert exchange_time(MACHINE, group, received) == pytest.approx(wanted)


SHARED = Machine(8, 8, 4, inside=Link(A, B), between=Link(10 * A, 4 * B), reduction_rate=C)
"""Two ranks take turns on a core, so all sums take twice as long."""


def scattered(size: float) -> float:
    """Sums of parts on four ranks of a host: two rounds, in which each gets three quarters and adds them up."""
    return 2 * A + 3 / 4 * size / B + 2 * 3 / 4 * size / C


@pytest.mark.parametrize("size", [8e3, 8e9], ids=["short", "long"])
@pytest.mark.parametrize("hosts", [2, 3, 4])
def test_between_hosts_each_member_of_a_host_moves_its_part_by_its_part_of_the_card(hosts: int, size: float) -> None:
    """Three groups of four on each host, so a rank has a twelfth of the card; it moves a quarter of the bytes."""
    rounds, others = {2: 1, 3: 2, 4: 2}[hosts] * 10 * A, (hosts - 1) / hosts
    part, card = size / 4, 4 * B / 12
    moved, summed = rounds + others * part / card, 2 * others * part / C
    gathered = 2 * A + 3 / 4 * size / B
    group = Group(hosts, 4, 3)
    assert gather_time(SHARED, group, size) == pytest.approx(moved + gathered)
    assert reduce_scatter_time(SHARED, group, size) == pytest.approx(scattered(size) + moved + summed)
    doubling = rounds + {2: 1, 3: 2, 4: 2}[hosts] * (part / card + 2 * part / C)
    between = doubling if size < 1e6 else 2 * moved + summed
    assert all_reduce_time(SHARED, group, size) == pytest.approx(scattered(size) + gathered + between)


def test_ranks_of_one_host_take_no_card() -> None:
    for timed, wanted in (
        (gather_time, 2 * A + 3 / 4 * 8e9 / B),
        (reduce_scatter_time, scattered(8e9)),
        (all_reduce_time, scattered(8e9) + 2 * A + 3 / 4 * 8e9 / B),
    ):
        assert timed(SHARED, Group(1, 4, 2), 8e9) == pytest.approx(wanted)


def test_as_many_ranks_as_hosts_are_one_of_each() -> None:
    assert [Group(3, 4).size, Group(1, 1).size, Group(5, 1, 7).size] == [12, 1, 5]


def test_one_rank_of_each_host_takes_nothing_inside_whatever_was_measured_there() -> None:
    assert gather_time(MEASURED, Group(2, 1), 2e6) == pytest.approx(10 * A + 1e6 / (4 * B))
    assert exchange_time(MEASURED, Group(2, 1), 2e6) == pytest.approx(10 * A + 2e6 / (4 * B))
