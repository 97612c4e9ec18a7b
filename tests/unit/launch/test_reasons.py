"""What ``mpiparallel simulate --why`` answers for one operator."""

from __future__ import annotations

import pytest

from mpiparallel.launch.show.reasons import reason_text
from mpiparallel.search.forecast.reason import Alternative, Reason


@pytest.mark.parametrize(("count", "shown", "left"), [(1, 1, 0), (8, 8, 0), (9, 8, 1), (30, 8, 22)])
def test_eight_alternatives_are_shown_and_the_others_counted(count: int, shown: int, left: int) -> None:
    alternatives = tuple(Alternative(((1, place + 2),), 2.0 + place, 1 << 20) for place in range(count))
    text = reason_text(Reason("MatMul-op0", "the cheapest", ((2, 1),), 1.0, 1 << 20, alternatives, count, count))
    assert sum(line.count(" %") for line in text.splitlines() if "alternative" not in line) == shown
    assert [line.strip() for line in text.splitlines() if "dearer" in line] == [f"and {left} dearer ones"] * bool(left)
