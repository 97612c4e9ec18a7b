from __future__ import annotations

from collections.abc import Callable

import pytest

from mpiparallel.cluster.flight import format as layout
from mpiparallel.cluster.flight.hang_diagnosis import diagnose
from mpiparallel.cluster.flight.recorder import FlightRecorder
from mpiparallel.cluster.flight.recording import Recording

SIZE = 3


class Rank:
    """A rank that plays its part of a story."""

    def __init__(self, number: int, size: int = SIZE) -> None:
        self.number = number
        self.recorder = FlightRecorder(None, number, size)
        self.world = self.recorder.group(range(size))
        self.recorder.change_state(layout.RUNNING)

    def enter(self, name: str, label: str = "", group: int | None = None) -> int:
        chosen = self.world if group is None else group
        return self.recorder.enter(chosen, self.recorder.text(f"{name} <f4"), self.recorder.text(label), 12)

    def does(self, *names: str) -> Rank:
        for name in names:
            self.recorder.leave(self.enter(name))
        return self

    def alone(self, name: str) -> Rank:
        self.recorder.leave(self.enter(name, group=self.recorder.group((self.number,))))
        return self

    def waits(self, name: str, place: str = "train.py:88", label: str = "layer3.w") -> Rank:
        self.enter(name, label)
        return self.at(place)

    def at(self, place: str) -> Rank:
        self.recorder.beat(place)
        return self

    def becomes(self, state: int) -> Rank:
        self.recorder.change_state(state)
        return self

    @property
    def recording(self) -> Recording:
        return Recording.of_memory(self.recorder.memory)


def ranks(*parts: Callable[[Rank], Rank]) -> list[Recording]:
    return [part(Rank(number)).recording for number, part in enumerate(parts)]


def waiting(rank: Rank) -> Rank:
    return rank.does("barrier").waits("all_reduce")


WAIT = "ranks 0,2 wait in all_reduce #2 (layer3.w, all ranks) at train.py:88"

STORIES: dict[str, tuple[Callable[[Rank], Rank], str, bool]] = {
    "another collective of the same group": (
        lambda rank: rank.does("barrier").waits("broadcast", "train.py:90", ""),
        f"{WAIT}, but rank 1, which is in broadcast #2 (all ranks) at train.py:90",
        False,
    ),
    "computing": (
        lambda rank: rank.does("barrier").at("model.py:7"),
        f"{WAIT} for rank 1, which is at model.py:7 after barrier #1 (all ranks)",
        False,
    ),
    "ended": (
        lambda rank: rank.does("barrier").becomes(layout.ENDED),
        f"{WAIT} for rank 1, which has ended after barrier #1 (all ranks)",
        True,
    ),
    "failed": (
        lambda rank: rank.becomes(layout.FAILED),
        f"{WAIT} for rank 1, which has failed before its first collective",
        True,
    ),
    "alone, whose own collectives nobody waits for": (
        lambda rank: rank.does("barrier").alone("all_gather").at("model.py:9"),
        f"{WAIT} for rank 1, which is at model.py:9 after barrier #1 (all ranks)",
        False,
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_the_rank_that_the_others_wait_for_is_named_with_what_it_does(story: str) -> None:
    part, sentence, is_proven = STORIES[story]
    diagnosis = diagnose(ranks(waiting, part, waiting))
    assert diagnosis is not None
    assert diagnosis.sentence == sentence
    assert (diagnosis.waiting, diagnosis.culprits, diagnosis.is_proven) == ((0, 2), (1,), is_proven)


MESSAGES = {
    "start_receive": (
        "the activations of micro-batch 5 from stage 1",
        "for the activations of micro-batch 5 from stage 1",
    ),
    "start_send": (
        "the gradients of micro-batch 2 to stage 1",
        "to hand over the gradients of micro-batch 2 to stage 1",
    ),
}
WHEREABOUTS = {
    "": "which is in stage 1's forward pass of micro-batch 5, at model.py:7",
    "stopped": "which is stopped, last seen at model.py:7, in stage 1's forward pass of micro-batch 5",
    "dead": "which has died in stage 1's forward pass of micro-batch 5, on ",
}


def test_calls_of_two_groups_with_one_number_are_told_apart() -> None:
    recording = Rank(1).alone("all_gather").does("barrier").recording
    of_group = {call.group: recording.call(call.group, 1) for call in recording.calls}
    assert {str(group): call and call.name for group, call in of_group.items()} == {
        "rank 1": "all_gather",
        "all ranks": "barrier",
    }


@pytest.mark.parametrize("operation", MESSAGES)
@pytest.mark.parametrize("state", WHEREABOUTS)
def test_a_stage_that_waits_for_another_is_named_with_micro_batch_and_action(operation: str, state: str) -> None:
    label, waits = MESSAGES[operation]
    zero, one = Rank(0, 2), Rank(1, 2)
    zero.does("begin_step").recorder.begin_action(2, zero.recorder.text("forward pass of micro-batch #"), 5)
    text = zero.recorder.text
    zero.recorder.enter_message(zero.world, text(operation), text(label), 12, 1)
    zero.at("train.py:88")
    one.does("begin_step").recorder.begin_action(1, one.recorder.text("forward pass of micro-batch #"), 5)
    recordings = [zero.recording, one.at("model.py:7").recording]
    diagnosis = diagnose(recordings, lambda recording: state if recording.rank == 1 else "")
    assert diagnosis is not None
    wait = f"stage 2 waits {waits}: rank 0 waits in {operation} at train.py:88 for rank 1, {WHEREABOUTS[state]}"
    assert diagnosis.sentence.startswith(wait)


@pytest.mark.parametrize(
    ("stage", "label", "peer", "told"),
    [
        (layout.NO_STAGE, "w", 1, "rank 0 waits in receive (w, all ranks) at a.py:1 for rank 1,"),
        (2, "", 1, "rank 0 waits in receive (all ranks) at a.py:1 for rank 1,"),
        (2, "w", None, "rank 0 waits in receive #1 (w, all ranks) at a.py:1 for rank 1,"),
        (2, "w", 1, "stage 2 waits for w: rank 0 waits in receive at a.py:1 for rank 1,"),
    ],
)
def test_a_stage_waits_for_messages_with_a_name_alone(stage: int, label: str, peer: int | None, told: str) -> None:
    zero, one = Rank(0, 2), Rank(1, 2)
    text = zero.recorder.text
    zero.recorder.begin_action(stage, text("update"), 0)
    call = zero.world, text("receive"), text(label), 4
    zero.recorder.enter(*call) if peer is None else zero.recorder.enter_message(*call, peer)
    diagnosis = diagnose([zero.at("a.py:1").recording, one.recording])
    assert diagnosis is not None
    assert diagnosis.sentence.startswith(told)


def test_a_rank_whose_step_has_ended_is_in_no_stage() -> None:
    rank = Rank(0).does("begin_step")
    rank.recorder.begin_action(1, rank.recorder.text("update"), 0)
    assert (rank.recording.stage, rank.recording.action) == (1, "stage 1's update")
    rank.recorder.begin_action(layout.NO_STAGE, 0, 0)
    assert (rank.recording.stage, rank.recording.action) == (None, "")


@pytest.mark.parametrize(
    ("state", "words", "is_proven"),
    [("dead", "which has died after barrier #1", True), ("stopped", "which is stopped, last seen at m.py:7,", False)],
)
def test_what_the_system_knows_of_a_process_is_told(state: str, words: str, is_proven: bool) -> None:
    recordings = ranks(waiting, lambda rank: rank.does("barrier").at("m.py:7"), waiting)
    diagnosis = diagnose(recordings, lambda recording: state if recording.rank == 1 else "")
    assert diagnosis is not None
    assert words in diagnosis.sentence
    assert diagnosis.is_proven == is_proven


@pytest.mark.parametrize(
    ("state", "words", "is_proven"),
    [
        ("dead", "rank 1, which has died in all_reduce #2 (layer3.w, all ranks), on ", True),
        (
            "stopped",
            "rank 1, which is stopped, last seen at train.py:88, in all_reduce #2 (layer3.w, all ranks)",
            False,
        ),
    ],
)
def test_a_rank_that_was_halted_inside_the_call_is_the_one_that_the_others_wait_for(
    state: str, words: str, is_proven: bool
) -> None:
    diagnosis = diagnose(ranks(*[waiting] * SIZE), lambda recording: state if recording.rank == 1 else "")
    assert diagnosis is not None
    assert diagnosis.sentence.startswith(f"{WAIT} for {words}")
    assert (diagnosis.waiting, diagnosis.culprits, diagnosis.is_proven) == ((0, 2), (1,), is_proven)


def test_a_rank_that_has_left_the_call_and_is_gone_holds_nobody_up() -> None:
    """It may have sent all that the others still receive."""
    recordings = ranks(waiting, lambda rank: rank.does("barrier", "all_reduce").becomes(layout.ENDED), waiting)
    diagnosis = diagnose(recordings, lambda recording: "dead" if recording.rank == 1 else "")
    assert diagnosis is not None
    assert diagnosis.culprits == ()
    assert not diagnosis.is_proven


def test_the_sentence_is_about_the_rank_that_waits_for_nobody() -> None:
    """Rank 2 waits for rank 1 in a pair, and rank 0 for both: the cause is rank 1."""
    zero, one, two = Rank(0), Rank(1), Rank(2)
    zero.waits("all_reduce")
    two.enter("barrier", group=two.recorder.group([1, 2]))
    one.recorder.group([1, 2])
    one.at("load.py:3")
    diagnosis = diagnose([rank.recording for rank in (zero, one, two)])
    assert diagnosis is not None
    assert diagnosis.culprits == (1,)
    assert diagnosis.sentence.startswith("rank 2 waits in barrier #1 (ranks 1-2)")


def test_ranks_that_wait_for_each_other_are_told_too() -> None:
    zero, one = Rank(0, 2), Rank(1, 2)
    zero.recorder.enter_message(zero.world, zero.recorder.text("receive"), 0, 4, 1)
    one.recorder.enter_message(one.world, one.recorder.text("receive"), 0, 4, 0)
    zero.at("a.py:1")
    one.at("a.py:2")
    diagnosis = diagnose([zero.recording, one.recording])
    assert diagnosis is not None
    assert diagnosis.sentence == (
        "rank 0 waits in receive (all ranks) at a.py:1 for rank 1, which is in receive (all ranks) at a.py:2"
    )
    assert not diagnosis.is_proven


def test_a_rank_without_a_recording_is_said_to_have_none() -> None:
    diagnosis = diagnose(ranks(waiting))
    assert diagnosis is not None
    assert diagnosis.sentence.endswith("for ranks 1-2, of which nothing is known here")


def test_when_all_are_there_the_network_is_suspected() -> None:
    diagnosis = diagnose(ranks(waiting, waiting, waiting))
    assert diagnosis is not None
    assert "the network or the MPI library does not get on" in diagnosis.sentence
    assert diagnosis.culprits == ()


def test_where_nobody_waits_there_is_nothing_to_say() -> None:
    assert diagnose(ranks(*[lambda rank: rank.does("barrier").at("a.py:1")] * SIZE)) is None
    assert diagnose([]) is None


def test_a_rank_without_a_recording_is_told_beside_one_that_has_one() -> None:
    diagnosis = diagnose(ranks(waiting, lambda rank: rank.does("barrier").at("m.py:7")))
    assert diagnosis is not None
    assert diagnosis.sentence.endswith(
        "for rank 1, which is at m.py:7 after barrier #1 (all ranks) and for rank 2, which left no recording"
    )
