from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpiparallel.cluster.rank_order import RankOrder
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
