"""The cheapest number of ranks: which are tried, what each costs, and the table of all."""

from __future__ import annotations

from typing import Any

import pytest

from mpiparallel.launch.simulate.rank_count_search import SimulatedRanks, cheapest, counts, finding_text


@pytest.mark.parametrize(
    ("first", "last", "tried"),
    [
        (1, 1, (1,)),
        (1, 8, (1, 2, 4, 8)),
        (1, 9, (1, 2, 4, 8)),
        (3, 8, (4, 8)),
        (4, 7, (4,)),
        (5, 7, ()),
        (1, 0, ()),
    ],
)
def test_powers_of_two_are_tried_from_the_first_to_the_last(first: int, last: int, tried: tuple[int, ...]) -> None:
    assert counts(first, last) == tried


def simulated(ranks: int, **changes: Any) -> SimulatedRanks:
    return SimulatedRanks(ranks, {"seconds": 2.0, "samples": 8, "memory": 1e9, "missing_memory": 0.0, **changes})


@pytest.mark.parametrize(
    ("one", "cost", "fits"),
    [
        (simulated(4), 1.0, True),
        (simulated(4, samples=0), 8.0, True),
        (simulated(4, missing_memory=-1.0), 1.0, True),
        (simulated(4, missing_memory=1.0), 1.0, False),
        (SimulatedRanks(4, None, "refused"), 0.0, False),
    ],
)
def test_a_number_of_ranks_costs_their_seconds_for_each_sample(one: SimulatedRanks, cost: float, fits: bool) -> None:
    assert (one.cost, one.fits) == (cost, fits)


def test_all_that_were_tried_stand_in_a_table_with_what_they_lack_and_a_star_at_the_cheapest() -> None:
    tried = (
        SimulatedRanks(1, None, "train.py:3: refused"),
        simulated(2, missing_memory=5e8, memory=1.5e9),
        simulated(4),
        simulated(2048, seconds=0.25, samples=0),
        simulated(4096, seconds=0.0),
    )
    assert finding_text(tried, tried[2]).splitlines() == [
        "ranks    step  samples/s  rank-seconds/sample   a rank",
        "    1                                                   train.py:3: refused",
        "    2     2 s          4                  0.5  1.50 GB  500 MB too much",
        "    4     2 s          4                    1  1.00 GB  *",
        "2,048  250 ms                             512  1.00 GB",
        "4,096    0 ms                               0  1.00 GB",
    ]


def test_the_cheapest_is_that_of_least_cost_and_of_equal_ones_that_of_fewest_ranks() -> None:
    assert cheapest([simulated(4), simulated(2, seconds=4.0), simulated(8, seconds=0.5)]).ranks == 8
    assert cheapest([simulated(4), simulated(2, seconds=4.0)]).ranks == 2
