"""Counts that a model can be trained by, and arguments that change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mpiparallel.errors import ConfigurationError
from mpiparallel.train.feeding.feeding_arguments import check_counts, remark_on_feeding


@pytest.mark.parametrize("counts", [(1, 0, -1), (3, 2, 1), (3, 0, 100)])
def test_counts_at_their_limits_are_taken(counts: tuple[int, int, int]) -> None:
    check_counts(*counts)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        *(((epoch, 0, -1), f"epoch {epoch!r} must be an integer of at least 1") for epoch in (0, -1, True, 1.0, "1")),
        *(
            ((3, first, -1), f"initial_epoch {first!r} must be an integer from 0 and below epoch 3, the last one")
            for first in (-1, 3, 4, True, False, 1.0, None)
        ),
        *(((3, 0, size), f"sink_size {size} must be -1 or at least 1") for size in (0, -2, -3, True, 1.5, None)),
    ],
)
def test_what_is_no_count_is_refused_with_what_is(counts: Any, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_counts(*counts)
    assert str(caught.value) == f"Model.train: {words}"


@pytest.mark.parametrize(
    ("given", "is_told"),
    [
        ({"sink_size": -1, "epoch": 1, "dataset_sink_mode": True, "sink_mode": True, "callbacks": None}, []),
        ({"sink_size": 4}, ["sink_size=4 has no effect"]),
        ({"dataset_sink_mode": False}, ["dataset_sink_mode=False has no effect"]),
        ({"epoch": 2}, ["epoch=2 has no effect"]),
    ],
)
def test_an_argument_that_changes_nothing_is_told_where_it_is_not_the_default(
    given: dict[str, Any], is_told: list[str], remarks: Callable[[], list[str]]
) -> None:
    remark_on_feeding("Model.build", **given)
    assert [words in line for words, line in zip(is_told, remarks(), strict=True)] == [True] * len(is_told)
