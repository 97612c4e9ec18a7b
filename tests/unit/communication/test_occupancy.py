"""What all ranks must see alike of how they share hosts."""

from __future__ import annotations

import pytest

from mpiparallel.communication import occupancy
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import CommunicationError


@pytest.mark.parametrize("chosen", [False, True])
def test_all_ranks_overlap_as_rank_0_does_or_none_would_meet_the_others(chosen: bool) -> None:
    found = run_world(3, lambda world: occupancy.agreed(world, chosen == (world.rank == 0)))
    assert found == [chosen] * 3


@pytest.mark.parametrize(("asked", "several", "wanted"), [("auto", True, True), ("auto", False, False)])
def test_collectives_overlap_between_hosts(monkeypatch, asked: str, several: bool, wanted: bool) -> None:
    monkeypatch.setenv(occupancy.OVERLAP_VARIABLE, asked)
    assert occupancy.overlaps(several) is wanted


@pytest.mark.parametrize(("asked", "wanted"), [("on", True), ("OFF", False)])
def test_the_environment_has_the_last_word(monkeypatch, asked: str, wanted: bool) -> None:
    monkeypatch.setenv(occupancy.OVERLAP_VARIABLE, asked)
    assert occupancy.overlaps(not wanted) is wanted


def test_an_unknown_setting_is_refused(monkeypatch) -> None:
    monkeypatch.setenv(occupancy.OVERLAP_VARIABLE, "yes")
    with pytest.raises(CommunicationError, match="'yes'"):
        occupancy.overlaps(True)
