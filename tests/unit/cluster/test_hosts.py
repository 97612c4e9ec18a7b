from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.cluster.hosts import Hosts
from mpiparallel.errors import RankTableError


@given(st.lists(st.integers(0, 4), min_size=1, max_size=20).map(tuple))
def test_the_ranks_of_a_host_are_those_that_name_it(numbers: tuple[int, ...]) -> None:
    hosts = Hosts(numbers)
    for host in range(6):
        assert list(hosts.ranks_of(host)) == [rank for rank in range(len(numbers)) if hosts.host(rank) == host]
    assert [hosts.host(rank) for rank in range(len(numbers))] == list(numbers)


@given(st.integers(1, 9), st.integers(1, 5))
def test_uniform_hosts_are_those_that_repeat_each_number(ranks_per_host: int, count: int) -> None:
    uniform, told = Hosts.uniform(ranks_per_host), Hosts(tuple(n for n in range(count) for _ in range(ranks_per_host)))
    assert [uniform.host(rank) for rank in range(count * ranks_per_host)] == list(told.numbers)
    assert all(list(uniform.ranks_of(host)) == list(told.ranks_of(host)) for host in range(count))


def test_equal_hosts_are_equal_keys() -> None:
    assert len({Hosts((0, 0, 1)), Hosts((0, 0, 1)), Hosts((0, 1, 1)), Hosts.uniform(2), Hosts.uniform(2)}) == 3


@pytest.mark.parametrize(("numbers", "ranks_per_host"), [((), 0), ((0,), 1), ((), -1), ((0, -1), 0)])
def test_hosts_without_ranks_or_told_twice_are_refused(numbers: tuple[int, ...], ranks_per_host: int) -> None:
    with pytest.raises(RankTableError, match="give the host of each rank as a number from 0, or how many"):
        Hosts(numbers, ranks_per_host)


@pytest.mark.parametrize("rank", [-1, 3])
def test_a_rank_whose_host_is_not_known_is_named(rank: int) -> None:
    with pytest.raises(RankTableError, match=f"rank {rank}: hosts are known of 3 ranks"):
        Hosts((0, 0, 1)).host(rank)


@pytest.mark.parametrize(
    ("numbers", "ranks_per_host", "told"),
    [
        ((), 0, "hosts of ranks (), 0 ranks per host"),
        ((0, 1), 2, "hosts of ranks (0, 1), 2 ranks per host"),
        ((*range(9, -1, -1), -1), 0, "hosts of ranks (9, 8, 7, 6, 5, 4, 3, 2), 0 ranks per host"),
    ],
)
def test_what_is_wrong_is_told_with_the_first_eight_numbers(
    numbers: tuple[int, ...], ranks_per_host: int, told: str
) -> None:
    with pytest.raises(RankTableError) as caught:
        Hosts(numbers, ranks_per_host)
    assert (
        str(caught.value) == f"{told}: give the host of each rank as a number from 0, or how many ranks each host has"
    )


def test_a_host_that_is_not_there_has_no_ranks() -> None:
    assert list(Hosts((0, 2)).ranks_of(1)) == []
    assert Hosts((0, 2)).host(1) == 2
