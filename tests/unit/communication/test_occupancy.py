"""What all ranks must see alike of how they share hosts."""

from __future__ import annotations

import os
import threading

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
    with pytest.raises(CommunicationError) as caught:
        occupancy.overlaps(True)
    assert str(caught.value) == "MPIPARALLEL_OVERLAP='yes' in the environment is not one of auto, on, off"


@pytest.mark.parametrize("several", [False, True])
def test_without_a_setting_collectives_overlap_where_hosts_are_several(monkeypatch, several: bool) -> None:
    monkeypatch.delenv(occupancy.OVERLAP_VARIABLE, raising=False)
    assert occupancy.overlaps(several) is several


def test_the_cores_of_this_process_are_those_that_the_system_lets_it_use(monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 5, 16383} if process == 0 else {1})
    assert run_world(2, occupancy.shared_cores) == [3, 3]


@pytest.mark.parametrize(("cores", "wanted"), [(7, 7), (None, 1)])
def test_where_the_system_does_not_say_which_cores_are_usable_all_are(monkeypatch, cores, wanted: int) -> None:
    monkeypatch.setattr(occupancy.sys, "platform", "darwin")
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert run_world(2, occupancy.shared_cores) == [wanted] * 2


@pytest.mark.parametrize(
    ("cores", "wanted"),
    [
        ([{0}, {1}, {0}, {1}], False),
        ([{0}, {0}, {0}, {1}], True),
        ([{0}, {1}, {5}, {5}], True),
        ([{0, 1}] * 4, False),
        ([{2, 3}, {3}, {7, 8, 9}, {7}], False),
    ],
)
def test_a_host_is_crowded_where_its_ranks_have_fewer_cores_than_they_are(monkeypatch, cores, wanted: bool) -> None:
    """Ranks 0 and 1 are on one host, ranks 2 and 3 on another; what one sees counts for all."""
    usable = threading.local()
    monkeypatch.setattr(occupancy, "_usable_cores", lambda: usable.cores)

    def crowded(world) -> bool:
        usable.cores = cores[world.rank]
        return occupancy.is_crowded(world, world.group((0, 1) if world.rank < 2 else (2, 3)))

    assert run_world(4, crowded) == [wanted] * 4
