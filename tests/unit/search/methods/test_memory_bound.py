"""Prices of a byte, one after the other, until what they choose fits into a limit or there is no time."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest

from mpiparallel.search.methods.memory_bound import Priced, within_memory


class Plans:
    """Answers with what a rule says for a price, and notes what it is asked."""

    def __init__(self, rule: Callable[[float], tuple[float, float]]) -> None:
        self.rule = rule
        self.asked: list[float] = []

    def __call__(self, price: float) -> Priced:
        self.asked.append(price)
        seconds, size = self.rule(price)
        return Priced((len(self.asked) - 1,), seconds, size, seconds + price * size)


def test_what_fits_at_no_price_is_taken_at_once_with_its_bound() -> None:
    plans = Plans(lambda price: (3.0, 5.0))
    found, bound = within_memory(plans, 5.0)
    assert (found.options, bound, plans.asked) == ((0,), 3.0, [0.0])


@pytest.mark.parametrize(
    ("seconds", "size", "first"),
    [
        (6.0, 8.0, 0.75),
        # Less than a byte counts as one, and no seconds as a nanosecond.
        (6.0, 0.5, 6.0),
        (0.0, 2.0, 5e-10),
    ],
)
def test_the_first_price_makes_all_bytes_as_dear_as_the_seconds_and_twelve_are_tried(
    seconds: float, size: float, first: float
) -> None:
    plans = Plans(lambda price: (seconds, size))
    found, bound = within_memory(plans, size / 2)
    assert plans.asked == pytest.approx([0.0, *(first * 4**place for place in range(12))])
    # Of equals the first; nothing within the limit is known to be possible.
    assert (found.options, bound) == ((0,), inf)


def test_where_nothing_fits_the_least_of_all_that_was_tried_is_told() -> None:
    sizes = iter([9.0, 8.0, 5.0, *[7.0] * 10])
    found, bound = within_memory(Plans(lambda price: (1.0, next(sizes))), 4.0)
    assert (found.options, found.bytes, bound) == ((2,), 5.0, inf)


def test_a_quicker_plan_that_fits_is_kept_though_a_lower_price_finds_a_slower_one() -> None:
    """The first that fits takes 2 s; what fits at a lower price takes longer, as that of a search may that guesses."""
    plans = Plans(lambda price: (1.0, 4.0) if price < 1.0 else (2.0, 1.0) if price == 1.0 else (3.0, 2.0))
    found, _ = within_memory(plans, 2.0)
    assert (found.options, found.seconds) == ((2,), 2.0)
    slower = Plans(lambda price: (1.0, 4.0) if price < 0.5 else (2.0 + price, 2.0))
    found, _ = within_memory(slower, 2.0)
    assert found.seconds == pytest.approx(2.5, rel=0.01)
    assert found.seconds == 2.0 + min(price for price in slower.asked if price >= 0.5)


def test_a_price_is_drawn_near_to_a_hundredth_and_no_further() -> None:
    plans = Plans(lambda price: (2.0, 1.0) if price >= 1.0 else (1.0, 2.0))
    within_memory(plans, 1.0)
    # It lies between a half and two: 1.5 / 2 ** 8 is less than a hundredth of one, 1.5 / 2 ** 7 is more.
    assert plans.asked[:4] == [0.0, 0.5, 2.0, 1.25]
    assert len(plans.asked) == 3 + 8


@pytest.mark.parametrize(
    ("time", "asked", "wanted"),
    [
        # No time for any price, for one that does not fit, and for nothing after the first that fits.
        (0, [0.0], 0),
        (1, [0.0, 0.5], 0),
        (2, [0.0, 0.5, 2.0], 2),
        (3, [0.0, 0.5, 2.0, 1.25], 3),
    ],
)
def test_without_time_no_further_price_is_tried(time: int, asked: list[float], wanted: int) -> None:
    left = iter([True] * time)
    plans = Plans(lambda price: (1.0 + price, 1.0) if price >= 1.0 else (1.0, 2.0))
    found, bound = within_memory(plans, 1.0, lambda: next(left, False))
    assert (plans.asked, found.options) == (asked, (wanted,))
    # What a price promises, without the price of the whole limit.
    told = [1.0 + price + price - price if price >= 1.0 else 1.0 + 2 * price - price for price in asked]
    assert bound == pytest.approx(max(told))
