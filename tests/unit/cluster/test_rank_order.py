from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.cluster.rank_order import RankOrder, runs
from mpiparallel.errors import RankTableError


@given(st.integers(1, 40).flatmap(lambda count: st.permutations(range(count))))
def test_text_of_an_order_reads_back_the_same(ranks: list[int]) -> None:
    order = RankOrder(tuple(ranks))
    assert RankOrder.parse(str(order)) == order
    assert order.is_identity == (ranks == sorted(ranks))


def test_hosts_are_filled_one_after_the_other_with_their_lowest_ranks_first() -> None:
    assert RankOrder.of_hosts([(5, 2), (0, 1), (4, 3)]).ranks == (2, 5, 0, 1, 3, 4)


@pytest.mark.parametrize("text", ["", "a", "1", "0,0", "0-", "2-0", "0-999999999", "0,2"])
def test_text_that_is_no_order_is_refused(text: str) -> None:
    with pytest.raises(RankTableError, match="rank order"):
        RankOrder.parse(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a", 'rank order "a" is no list of runs such as "4-7,0-3"; start the job anew'),
        ("x" * 70, f'rank order "{"x" * 60}" is no list of runs such as "4-7,0-3"; start the job anew'),
        ("0-1000000", 'rank order "0-1000000" is no list of runs such as "4-7,0-3"; start the job anew'),
        ("1,2", 'rank order "1-2": there are 2 processes; name each rank from 0 to 1 once'),
        ("0,0", 'rank order "0,0": there are 2 processes; name each rank from 0 to 1 once'),
        ("1-20", 'rank order "1-8": there are 20 processes; name each rank from 0 to 19 once'),
    ],
)
def test_what_is_wrong_with_an_order_is_told(text: str, told: str) -> None:
    with pytest.raises(RankTableError) as caught:
        RankOrder.parse(text)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([3, 4], "3-4"), ([4, 3], "4,3"), ([0, 2, 3, 4, 9], "0,2-4,9"), ([1, 1], "1,1")],
)
def test_numbers_that_follow_each_other_are_one_run(numbers: list[int], text: str) -> None:
    assert runs(numbers) == text
