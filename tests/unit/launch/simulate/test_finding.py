"""The cheapest number of ranks is the one whose ranks work least for a sample, of those that fit."""

from __future__ import annotations

import pytest

from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.simulate.finding import Tried, cheapest


def tried(ranks: int, seconds: float, missing: float, samples: int = 8) -> Tried:
    found = {"seconds": seconds, "samples": samples, "memory": 1e9 + missing, "missing_memory": missing}
    return Tried(ranks, found)


def test_what_does_not_fit_is_left_out_and_equal_costs_go_to_fewer_ranks() -> None:
    rows = [tried(1, 4.0, 5e8), tried(2, 3.0, 0.0), tried(4, 1.5, -1e8), tried(8, 1.0, -2e8)]
    assert cheapest([*rows, Tried(16, None, "refused")]).ranks == 2


def test_where_nothing_fits_it_says_by_how_much_and_what_comes_closest() -> None:
    with pytest.raises(ConfigurationError, match=r"2 ranks come closest, with 1\.25 GB a rank, 250 MB too much"):
        cheapest([tried(1, 4.0, 5e8), tried(2, 3.0, 2.5e8)])
