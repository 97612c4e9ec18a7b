"""Where a rank is that others wait for, in words: what it does, since when it gives no sign, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from mpiparallel.cluster.flight import format as layout
from mpiparallel.cluster.flight.hang_diagnosis import diagnose
from mpiparallel.cluster.flight.recorder import FlightRecorder
from mpiparallel.cluster.flight.recording import Recording

HOST = "n0"


def recorded(rank: int, play: Callable[[FlightRecorder, int], object] = lambda recorder, world: None) -> Recording:
    """What rank ``rank`` of two has recorded that is in no stage, plays its part, and was seen at second 1,000."""
    recorder = FlightRecorder(None, rank, 2)
    recorder.change_state(layout.RUNNING)
    play(recorder, recorder.group(range(2)))
    return replace(Recording.of_memory(recorder.memory), host=HOST, beat=1000.0)


def waits(recorder: FlightRecorder, world: int) -> None:
    recorder.enter(world, recorder.text("barrier"), 0, 0)


def sends(recorder: FlightRecorder, world: int) -> None:
    recorder.enter_message(world, recorder.text("send"), 0, 4, 0)


def acts(recorder: FlightRecorder, world: int) -> None:
    recorder.begin_action(3, recorder.text("update"), 0)


def told(other: Recording, state: str = "") -> str:
    """Return what is told of rank 1, for which rank 0 waits."""
    found = diagnose([recorded(0, waits), other], lambda recording: state if recording.rank == 1 else "")
    assert found is not None
    words, _, where = found.sentence.partition(" for rank 1, which ")
    assert words == "rank 0 waits in barrier #1 (all ranks)"
    return where


NEVER = "before its first collective"


@pytest.mark.parametrize(
    ("changes", "state", "words"),
    [
        ({}, "", f"is computing {NEVER}"),
        ({"place": "a.py:7"}, "", f"is at a.py:7 {NEVER}"),
        ({"beat": 995.0}, "", f"is computing {NEVER}"),
        ({"beat": 994.9}, "", f"has given no sign for 5 s {NEVER}"),
        ({"beat": 900.4, "place": "a.py:7"}, "", f"has given no sign for 100 s, last seen at a.py:7, {NEVER}"),
        ({"place": "a.py:7"}, "stopped", f"is stopped, last seen at a.py:7, {NEVER}"),
        ({}, "stopped", f"is stopped {NEVER}"),
        ({}, "dead", f"has died {NEVER}, on n0"),
        ({"state": "ended"}, "", f"has ended {NEVER}"),
        ({"state": "failed"}, "dead", f"has failed {NEVER}"),
        ({"state": "failing"}, "", f"is computing {NEVER}"),
    ],
)
def test_a_rank_that_computes_is_told_with_its_place_and_its_silence(
    changes: dict[str, object], state: str, words: str
) -> None:
    assert told(replace(recorded(1), **changes), state) == words  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("place", "state", "words"),
    [
        ("", "", "is in stage 3's update"),
        ("a.py:7", "", "is in stage 3's update, at a.py:7"),
        ("a.py:7", "stopped", "is stopped, last seen at a.py:7, in stage 3's update"),
        ("", "dead", "has died in stage 3's update, on n0"),
    ],
)
def test_a_rank_in_a_stage_is_told_with_its_action(place: str, state: str, words: str) -> None:
    assert told(replace(recorded(1, acts), place=place), state) == words


def test_a_rank_that_died_in_a_message_is_told_with_it() -> None:
    # A message is no collective, so the other rank still waits for it.
    assert told(recorded(1, sends), "dead") == "has died in send (all ranks), on n0"


def test_several_that_do_the_same_are_told_together() -> None:
    recordings = []
    for rank in range(5):
        recorder = FlightRecorder(None, rank, 5)
        world = recorder.group(range(5))
        if not rank:
            waits(recorder, world)
        state = "ended" if rank in (2, 4) else "running"
        recordings.append(replace(Recording.of_memory(recorder.memory), state=state, beat=1000.0))
    found = diagnose(recordings)
    assert found is not None
    assert found.sentence == (
        f"rank 0 waits in barrier #1 (all ranks) for ranks 1,3, which all are computing {NEVER} and for ranks 2,4, "
        f"which all have ended {NEVER}"
    )
    assert (found.waiting, found.culprits, found.is_proven) == ((0,), (1, 2, 3, 4), True)


def test_of_ranks_at_several_places_none_is_told() -> None:
    recordings = []
    for rank in range(3):
        recorder = FlightRecorder(None, rank, 3)
        world = recorder.group(range(3))
        if rank:
            waits(recorder, world)
        recordings.append(replace(Recording.of_memory(recorder.memory), place=f"a.py:{rank}", beat=1000.0))
    found = diagnose(recordings)
    assert found is not None
    assert found.sentence.startswith("ranks 1-2 wait in barrier #1 (all ranks) for rank 0, ")


def waiting_in(*pairs: tuple[int, ...], before: int = 0) -> list[Recording]:
    """Six ranks, of which the first of each pair waits for its second in a group of the two; all know all groups."""
    recordings = []
    for rank in range(6):
        recorder = FlightRecorder(None, rank, 6)
        for place, members in enumerate(pairs):
            group = recorder.group(sorted(members))
            # In the first group some calls are over.
            for _ in range(before if not place and rank in members else 0):
                recorder.leave(recorder.enter(group, recorder.text("barrier"), 0, 0))
            if rank in members[:-1]:
                waits(recorder, group)
        recordings.append(replace(Recording.of_memory(recorder.memory), beat=1000.0))
    return recordings


@pytest.mark.parametrize(
    ("pairs", "before", "waiting"),
    [
        # Rank 1, for which rank 0 waits, waits itself.
        (((0, 1), (1, 2)), 0, (1,)),
        (((1, 2), (0, 1)), 0, (1,)),
        # Of two that wait for somebody who does not, those who are more, and then the one that has come less far.
        (((0, 1), (2, 3, 4)), 0, (2, 3)),
        (((0, 1), (2, 3)), 1, (2,)),
        (((0, 1), (2, 3)), 0, (0,)),
    ],
)
def test_of_several_waits_that_for_whoever_waits_for_nobody_is_told(
    pairs: tuple[tuple[int, ...], ...], before: int, waiting: tuple[int, ...]
) -> None:
    found = diagnose(waiting_in(*pairs, before=before))
    assert found is not None
    assert found.waiting == waiting


def test_the_last_collective_that_has_ended_is_told_not_a_message_or_one_that_was_only_started() -> None:
    recordings = []
    for rank in range(2):
        recorder = FlightRecorder(None, rank, 2)
        world = recorder.group(range(2))
        recorder.leave(recorder.enter(world, recorder.text("barrier"), 0, 0))
        if rank:
            recorder.leave(recorder.enter_message(world, recorder.text("send"), 0, 4, 0))
            recorder.enter_message(world, recorder.text("start_send"), 0, 4, 0)
            recorder.pause()
        else:
            recorder.enter(world, recorder.text("all_reduce"), 0, 0)
        recordings.append(replace(Recording.of_memory(recorder.memory), beat=1000.0))
    found = diagnose(recordings)
    assert found is not None
    assert found.sentence == (
        "rank 0 waits in all_reduce #2 (all ranks) for rank 1, which is computing after barrier #1 (all ranks)"
    )
