"""Words of options that stand for a policy, or for ranks."""

from __future__ import annotations

import pytest

from mpiparallel.errors import LaunchError
from mpiparallel.launch.job.on_failure import OnFailure
from mpiparallel.launch.job.output_selection import OutputSelection


@pytest.mark.parametrize("text", ["", "again", "abort:3", "restart:0", "restart:x", "restart:", "shrink:-1", "Restart"])
def test_word_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(LaunchError, match="give abort, restart, restart:5"):
        OnFailure.parse(text)


def test_words_and_their_numbers() -> None:
    parsed = [OnFailure.parse(text) for text in ("abort", "restart", "shrink", "shrink:7")]
    assert [(one.kind, one.restarts) for one in parsed] == [
        ("abort", 0), ("restart", 3), ("shrink", 3), ("shrink", 7)
    ]  # fmt: skip
    assert OnFailure.parse("shrink:7").without_shrinking() == OnFailure.parse("restart:7")


@pytest.mark.parametrize("text", ["", "3", "2-1", "0,", "a", "-1", "0-3", "9999999999", "0--1"])
def test_list_that_names_no_ranks_of_the_job_is_refused(text: str) -> None:
    with pytest.raises(LaunchError, match="names no ranks of 0 to 2; give 0,3-5"):
        OutputSelection.parse(text, 3)


def test_ranks_are_shown_once_each_by_number() -> None:
    assert OutputSelection.parse("2, 0-1,1", 3) == OutputSelection((0, 1, 2), True)
