"""What is read of a recorder's memory: each field, and nothing of numbers that name no text, group or state."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from mpiparallel.cluster.flight import format as layout
from mpiparallel.cluster.flight.recorder import FlightRecorder, spans
from mpiparallel.cluster.flight.recording import RecordedCall, RecordedGroup, Recording, ranks_of
from mpiparallel.errors import LaunchError


def read(recorder: FlightRecorder) -> Recording:
    return Recording.of_memory(recorder.memory)


@pytest.mark.parametrize(
    ("state", "name"),
    [(0, "starting"), (1, "running"), (2, "ended"), (3, "failed"), (4, "failing"), (5, ""), (-1, "")],
)
def test_a_state_is_told_by_its_name_and_another_number_by_none(state: int, name: str) -> None:
    recorder = FlightRecorder(None, 0, 1)
    recorder.change_state(state)
    assert read(recorder).state == name


@pytest.mark.parametrize(
    ("stage", "text", "action"),
    [
        (0, "forward pass of micro-batch #", (0, "stage 0's forward pass of micro-batch 7")),
        (3, "update", (3, "stage 3's update")),
        (-1, "update", (None, "")),
        (-2, "update", (None, "")),
    ],
)
def test_an_action_is_that_of_a_stage(stage: int, text: str, action: tuple[int | None, str]) -> None:
    recorder = FlightRecorder(None, 0, 1)
    recorder.begin_action(stage, recorder.text(text), 7)
    assert (read(recorder).stage, read(recorder).action) == action


@pytest.mark.parametrize("text", [-1, 2, 99])
def test_an_action_whose_text_is_not_there_is_none(text: int) -> None:
    recorder = FlightRecorder(None, 0, 1)
    recorder.begin_action(1, text, 7)
    assert (read(recorder).stage, read(recorder).action) == (None, "")


def group(name: str, size: int, is_whole: bool = False) -> RecordedGroup:
    return RecordedGroup(name, tuple(range(size)), 0, is_whole)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (group("0-3", 4, is_whole=True), "all ranks"),
        (group("0-1", 2), "ranks 0-1"),
        (group("0-1/2", 2), "ranks 0-1"),
        (group("3", 1), "rank 3"),
    ],
)
def test_a_group_is_told_by_its_ranks(found: RecordedGroup, words: str) -> None:
    assert str(found) == words


@pytest.mark.parametrize(
    ("label", "of", "peer", "words"),
    [
        ("w", "0-1", None, "all_reduce #5 (w, ranks 0-1)"),
        ("", "0-1", None, "all_reduce #5 (ranks 0-1)"),
        ("w", "", None, "all_reduce #5 (w)"),
        ("", "", None, "all_reduce #5"),
        ("w", "0-1", 1, "all_reduce (w, ranks 0-1)"),
        ("", "", 1, "all_reduce"),
    ],
)
def test_a_call_is_told_by_its_label_and_group_and_a_collective_by_its_number_there(
    label: str, of: str, peer: int | None, words: str
) -> None:
    call = RecordedCall(9, 5, group(of, 2), "all_reduce <f4 sum", label, 1, peer, 0.0, None)
    assert (call.name, str(call)) == ("all_reduce", words)


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("0", (0,)),
        ("0-2,5", (0, 1, 2, 5)),
        ("3-3", (3,)),
        ("0-1/12", (0, 1)),
        ("", ()),
        ("a", ()),
        ("0,", ()),
        ("0-b", ()),
        ("-1", ()),
        ("0-1-2", ()),
        ("1" * 20, ()),
        (f"0-{(1 << 20)}", ()),
    ],
)
def test_ranks_are_read_of_spans_and_none_of_what_is_no_span(text: str, ranks: tuple[int, ...]) -> None:
    assert ranks_of(text) == ranks


def test_spans_of_any_order_count_up() -> None:
    assert [spans(ranks) for ranks in ([], [3], [4, 3], [9, 1, 2, 5])] == ["", "3", "3-4", "1-2,5,9"]


def test_long_places_are_cut_and_hosts_are_told_without_what_fills_their_room() -> None:
    recorder = FlightRecorder(None, 0, 1)
    recorder.beat("x" * 300)
    assert read(recorder).place == "x" * 256
    recorder.beat("a.py:1")
    assert read(recorder).place == "a.py:1"


def test_a_message_tells_its_peer_and_no_number_in_the_group() -> None:
    recorder = FlightRecorder(None, 0, 2)
    world = recorder.group([0, 1])
    number = recorder.enter_message(world, recorder.text("send"), recorder.text("w"), 4, 0)
    (call,) = read(recorder).calls
    assert (call.number, call.sequence, call.peer, call.count, call.left) == (1, 0, 0, 4, None)
    recorder.pause()
    assert (read(recorder).inside, recorder.inside, recorder.written_inside) == (None, 0, 0)
    recorder.wait(number)
    assert (read(recorder).inside, recorder.inside, recorder.written_inside) == (call, 1, 1)
    recorder.leave(number)
    assert (read(recorder).inside, recorder.number) == (None, 1)
    (left,) = read(recorder).calls
    assert left.left is not None
    assert left.left >= left.entered


# There is one group, and there are four texts: none, the group's, the call's, and what follows the last.
@pytest.mark.parametrize(
    ("offset", "value"), [(16, 1), (16, 7), (16, -1), (20, 4), (20, 99), (22, 4), (22, 99)], ids=str
)
def test_a_call_of_numbers_that_name_nothing_is_left_out(offset: int, value: int) -> None:
    recorder = FlightRecorder(None, 0, 2)
    recorder.enter(recorder.group([0, 1]), recorder.text("barrier"), 0, 0)
    memory = bytearray(recorder.memory)
    struct.pack_into("<i" if offset == 16 else "<H", memory, layout.CALLS_AT + layout.CALL.size + offset, value)
    assert Recording.of_memory(bytes(memory)).calls == ()
    assert len(read(recorder).calls) == 1


def test_as_many_groups_have_names_as_there_is_room_for_but_one() -> None:
    recorder = FlightRecorder(None, 0, 2)
    slots = [recorder.group([0, number]) for number in range(1, 300)]
    assert slots == [min(number, 255) for number in range(299)]
    names = [one.name for one in read(recorder).groups]
    assert (len(names), names[254], names[255]) == (256, "0,255", "")


def test_a_file_that_is_not_there_is_told_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=f"^{tmp_path}/none: No such file or directory$"):
        Recording.load(tmp_path / "none")


def test_a_line_break_in_a_text_is_a_space() -> None:
    recorder = FlightRecorder(None, 0, 1)
    recorder.enter(recorder.group([0]), recorder.text("one\ntwo"), 0, 0)
    assert read(recorder).calls[0].operation == "one two"


def test_of_a_group_that_a_rank_is_not_in_it_has_entered_nothing() -> None:
    recorder = FlightRecorder(None, 0, 2)
    recorder.enter(recorder.group([0, 1]), recorder.text("barrier"), 0, 0)
    found = read(recorder)
    assert [found.entered(one) for one in (found.groups[0], group("7", 1))] == [1, 0]
    assert found.call(group("7", 1), 1) is None


def test_a_stage_is_told_also_where_there_was_no_room_for_the_text_of_its_action() -> None:
    recorder = FlightRecorder(None, 0, 1)
    recorder.begin_action(2, recorder.text("x" * layout.TEXTS_BYTES), 0)
    assert read(recorder).stage == 2


def test_a_rank_that_has_made_no_group_has_none() -> None:
    assert (read(FlightRecorder(None, 0, 1)).groups, read(FlightRecorder(None, 0, 1)).calls) == ((), ())
