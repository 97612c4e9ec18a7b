"""Who lays stages over hosts is told once where the hosts could take each stage whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mpiparallel.communication.threads import run_world
from tests.unit.train.staged_networks import Case, trained

_TWO, _THREE = (0, 0, 0, 1, 1, 1), (0, 0, 1, 1, 2, 2)
CASES: dict[str, tuple[tuple[int, ...], Any, list[int], str]] = {
    "host after host": (_TWO, 2, [0, 0, 2, 2], ""),
    "in turn": (_TWO, 2, [0, 1, 0, 1], "pipeline_stages=[[0, 2], [1, 3]]"),
    "in turn, with stages to match": (_TWO, [[0, 2], [1, 3]], [0, 1, 0, 1], ""),
    "uneven stages in the wrong order": (_TWO, [1, 3], [0, 0, 0, 3], "pipeline_stages=[[3], [0, 1, 2]]"),
    "stages larger than a host": (_TWO, [1, 3], [0, 0, 2, 2], ""),
    "room for one whole stage alone": (_TWO, 2, [0, 1, 1, 1], ""),
    "a stage in the middle": (_THREE, [1, 2, 1], [0, 0, 2, 2], "pipeline_stages=[[2], [0, 1], [3]]"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_split_that_another_order_would_avoid_is_told_once(name: str, remarks: Callable[[], list[str]]) -> None:
    cells, stages, hosts, wanted = CASES[name]
    run_world(4, trained, Case(cells, micro_size=2, settings={"pipeline_stages": stages}), hosts=hosts)
    said = [line for line in remarks() if "split over hosts" in line]
    assert len(said) == bool(wanted)
    assert all(wanted in line for line in said)
