"""Symbols of several choices together are what a function is of each combination."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mpiparallel.search.problem.symbol import Symbol, combined, combined_cells, made_symbol
from mpiparallel.search.problem.views import View, whole_view


def drawn(choice: int, options: int, classes: int, seed: int) -> Symbol[int]:
    """Return a symbol that sees some classes of a choice."""
    draw = np.random.default_rng(seed)
    seen = View(choice, np.array([min(option, classes - 1) for option in range(options)]))
    return made_symbol((seen,), np.arange(classes), draw.integers(0, 1000, classes).tolist())


@pytest.mark.parametrize(
    "sizes",
    [
        # Few codes, and more codes than there are cells: 50 ** 3.
        [(0, 3, 2), (1, 4, 4), (0, 3, 3)],
        [(0, 50, 50), (0, 50, 50), (0, 50, 50)],
        [(0, 60, 60), (1, 70, 40), (0, 60, 30)],
    ],
)
def test_a_function_of_symbols_is_that_of_their_items_wherever_choices_are(sizes: list[tuple[int, int, int]]) -> None:
    symbols = [drawn(*size, seed) for seed, size in enumerate(sizes)]
    called: list[tuple[int, ...]] = []

    def noted(*items: int) -> tuple[int, ...]:
        called.append(items)
        return items

    found = combined(symbols, noted)
    counts = {choice: options for choice, options, _ in sizes}
    combinations = set()
    for options in product(*(range(counts[choice]) for choice in sorted(counts))):
        wanted = tuple(symbol.at([*options, 0]) for symbol in symbols)
        assert found.at(options) == wanted
        combinations.add(wanted)
    # Each combination that there is, and no other, is asked for.
    assert set(called) == combinations
    assert combined_cells(symbols) >= len(combinations)


def test_what_is_always_the_same_has_no_choices_and_the_pattern_of_its_item() -> None:
    one, same, other = Symbol.always("a"), Symbol.always("a"), Symbol.always("b")
    assert one.choices == ()
    assert one.pattern == same.pattern != other.pattern
    assert one.at([5]) == "a"


def test_symbols_of_other_choices_have_one_pattern_as_long_as_they_are_renumbered_ones() -> None:
    view = whole_view(3, 4)
    made = made_symbol((view,), np.arange(4), ["a", "b", "c", "d"])
    twin = made.renumbered({3: 7})
    assert (made.choices, twin.choices) == ((3,), (7,))
    assert made.pattern == twin.pattern
    assert made.pattern != made_symbol((view,), np.arange(4), ["a", "b", "c", "d"]).pattern
    assert twin.at([0] * 7 + [2]) == "c"
