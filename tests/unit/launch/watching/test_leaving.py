from __future__ import annotations

import os
import socket

import pytest

from mpiparallel.launch.control.rank_registry import RankRegistry
from mpiparallel.launch.watching.leaving import Leaving

HERE = socket.gethostname()
HELD = "held by a thread that is no daemon, or by an exit handler"
CLOSED = "descriptors that the script had not opened are closed, and MPI needs them to finalize"


def tell(registry: RankRegistry, story: str) -> None:
    """Each word is a rank and what it does: calls (again), ends its script, completes, leaves, or dies."""
    for word in story.split():
        rank, deed = int(word[0]), word[1:]
        if deed == "calls":
            registry.call(rank, rank, HERE, 100 + rank)
        elif deed in ("leaves", "dies"):
            registry.lose(rank)
        else:
            registry.hear(rank, {"ends": "script ended", "completes": "completed"}[deed], None)


BEGIN = "0calls 1calls 2calls 0ends 2ends 0completes 2completes"


@pytest.mark.parametrize(
    ("story", "stopped", "who", "why"),
    [
        ("1ends", (), "rank 1 has ended its script, but its process has", HELD),
        ("1ends", (101,), "rank 1 has ended its script, but its process has", "stopped by a signal"),
        ("1ends 1completes", (102,), "rank 2 has ended its script, but its process has", "stopped by a signal"),
        ("1ends 1calls 1completes", (), "rank 1 has ended its script, but its process has", CLOSED),
        (
            "1ends 1completes",
            (),
            "ranks 0-2 have ended their scripts, but their processes have",
            "MPI does not finalize",
        ),
        (
            "1ends 1completes 0leaves",
            (),
            "ranks 1-2 have ended their scripts, but their processes have",
            "MPI does not finalize",
        ),
    ],
)
def test_who_does_not_leave_is_named_when_its_time_is_over(
    story: str, stopped: tuple[int, ...], who: str, why: str
) -> None:
    registry = RankRegistry(3)
    leaving = Leaving(registry, 5.0, lambda process: "stopped" if process in stopped else "")
    tell(registry, f"{BEGIN} {story}")
    assert [leaving.sentence(now) for now in (10.0, 14.9)] == [None, None]
    assert leaving.sentence(15.1) == f"{who} not left within 5 s: {why}"


def test_stopped_rank_is_named_once_all_others_have_ended_but_no_job_that_is_stopped_as_a_whole() -> None:
    stopped = {101}
    registry = RankRegistry(3)
    leaving = Leaving(registry, 5.0, lambda process: "stopped" if process in stopped else "")
    tell(registry, BEGIN)
    assert [leaving.sentence(now) for now in (10.0, 14.9)] == [None, None]
    assert leaving.sentence(15.1) == "rank 1 is stopped by a signal, and all others have ended"
    # From the moment that it is stopped again it has its time.
    stopped.clear()
    assert leaving.sentence(16.0) is None
    stopped.add(101)
    assert [leaving.sentence(now) for now in (30.0, 34.9)] == [None, None]
    whole = RankRegistry(3)
    tell(whole, "0calls 1calls 2calls")
    leaving = Leaving(whole, 5.0, lambda process: "stopped")
    assert [leaving.sentence(now) for now in (10.0, 1000.0)] == [None, None]


@pytest.mark.parametrize("story", ["", "1ends 0leaves 1completes 1leaves 2leaves", "1dies 0leaves 2leaves"])
def test_a_script_that_runs_and_ranks_that_have_left_are_late_for_nothing(story: str) -> None:
    registry = RankRegistry(3)
    tell(registry, f"{BEGIN} {story}")
    leaving = Leaving(registry, 5.0)
    assert [leaving.sentence(now) for now in (10.0, 1e6)] == [None, None]


def test_time_begins_anew_when_a_rank_comes_nearer_to_its_end() -> None:
    registry = RankRegistry(3)
    leaving = Leaving(registry, 5.0)
    tell(registry, BEGIN)
    for now, deed in ((100.0, "1ends"), (104.0, "1completes"), (108.0, "0leaves"), (112.0, "2leaves")):
        tell(registry, deed)
        assert leaving.sentence(now) is None
    assert leaving.sentence(118.0) == (
        "rank 1 has ended its script, but its process has not left within 5 s: MPI does not finalize"
    )


def test_without_a_watchdog_exit_handlers_have_any_time_and_mpi_a_minute() -> None:
    registry = RankRegistry(3)
    leaving = Leaving(registry, None)
    tell(registry, f"{BEGIN} 1ends")
    assert [leaving.sentence(now) for now in (10.0, 1e6)] == [None, None]
    tell(registry, "1completes")
    assert [leaving.sentence(1e6 + now) is None for now in (1.0, 60.9, 61.1)] == [True, True, False]


def test_a_process_of_another_host_is_not_taken_for_one_of_this() -> None:
    registry = RankRegistry(1)
    registry.call(0, 0, "elsewhere", os.getpid())
    registry.hear(0, "script ended", None)
    leaving = Leaving(registry, 5.0, lambda process: "stopped")
    assert leaving.sentence(0.0) is None
    assert str(leaving.sentence(6.0)).endswith(HELD)


@pytest.mark.parametrize("deed", ["1dies", "1completes", "0leaves"])
def test_whoever_comes_nearer_to_its_end_gives_the_others_their_time_anew(deed: str) -> None:
    registry = RankRegistry(3)
    leaving = Leaving(registry, 5.0)
    tell(registry, f"{BEGIN} 1ends")
    assert leaving.sentence(100.0) is None
    tell(registry, deed)
    assert [leaving.sentence(now) for now in (104.0, 108.0, 109.0)] == [None] * 3
    assert leaving.sentence(109.1) is not None


def test_a_time_is_told_in_short_and_a_single_process_has_its() -> None:
    registry = RankRegistry(2)
    leaving = Leaving(registry, 2.5, lambda process: "stopped" if process == 101 else "")
    tell(registry, "0calls 1calls 0ends 1ends 0completes 0leaves")
    assert leaving.sentence(0.0) is None
    assert leaving.sentence(3.0) == (
        "rank 1 has ended its script, but its process has not left within 2.5 s: stopped by a signal"
    )


def test_several_that_are_stopped_amid_their_scripts_are_told_together() -> None:
    registry = RankRegistry(3)
    leaving = Leaving(registry, 5.0, lambda process: "stopped" if process > 100 else "")
    tell(registry, "0calls 1calls 2calls 0ends 0completes")
    assert leaving.sentence(0.0) is None
    assert leaving.sentence(6.0) == "ranks 1-2 are stopped by a signal, and all others have ended"
