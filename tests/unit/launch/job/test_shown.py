from __future__ import annotations

import pytest

from mpiparallel.errors import LaunchError
from mpiparallel.launch.job.shown import Shown


@pytest.mark.parametrize("text", ["", "3", "2-1", "0,", "a", "-1", "0-3", "9999999999", "0--1"])
def test_list_that_names_no_ranks_of_the_job_is_refused(text: str) -> None:
    with pytest.raises(LaunchError, match="names no ranks of 0 to 2; give 0,3-5"):
        Shown.parse(text, 3)


def test_ranks_are_shown_once_each_by_number() -> None:
    assert Shown.parse("2, 0-1,1", 3) == Shown((0, 1, 2), True)
