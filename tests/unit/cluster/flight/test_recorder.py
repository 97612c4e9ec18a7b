from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mpiparallel.cluster.flight import format as layout
from mpiparallel.cluster.flight.process_state import birth_of, process_state
from mpiparallel.cluster.flight.recorder import FlightRecorder, spans
from mpiparallel.cluster.flight.recording import Recording, ranks_of
from mpiparallel.errors import LaunchError
from tests.conformance import patience


def enter(recorder: FlightRecorder, group: int, name: str = "all_reduce", label: str = "", count: int = 1) -> int:
    return recorder.enter(group, recorder.text(name), recorder.text(label), count)


def read(recorder: FlightRecorder) -> Recording:
    return Recording.of_memory(recorder.memory)


def test_what_is_recorded_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "flight3.bin"
    before = time.time()
    recorder = FlightRecorder(path, 3, 8)
    world, half = recorder.group(range(8)), recorder.group([3, 1, 2])
    recorder.leave(enter(recorder, world, "barrier"))
    recorder.leave(enter(recorder, half, "all_reduce <f4 sum", "layer3.w", 12))
    enter(recorder, half, "broadcast <f4 root 0", count=5)
    recorder.beat("train.py:88")
    recorder.change_state(layout.RUNNING)

    found = Recording.load(path)

    assert (found.rank, found.size, found.process, found.host) == (3, 8, os.getpid(), os.uname().nodename)
    assert (found.state, found.place) == ("running", "train.py:88")
    assert before <= found.started <= found.beat <= time.time()
    assert [(call.number, call.sequence, call.name, call.label, call.count) for call in found.calls] == [
        (1, 1, "barrier", "", 1),
        (2, 1, "all_reduce", "layer3.w", 12),
        (3, 2, "broadcast", "", 5),
    ]
    assert [call.left is None for call in found.calls] == [False, False, True]
    assert [(group.name, group.ranks, group.entered) for group in found.groups] == [
        ("0-7", tuple(range(8)), 1),
        ("1-3", (1, 2, 3), 2),
    ]
    assert found.inside == found.calls[-1]
    assert str(found.inside) == "broadcast #2 (ranks 1-3)"
    assert str(found.calls[0]) == "barrier #1 (all ranks)"


def test_a_recorder_that_is_attached_goes_on_in_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "flight0.bin"
    launcher = FlightRecorder(path, 0, 2)
    recorder = FlightRecorder.of_process({"MPIPARALLEL_FLIGHT": str(path)}, 5, 6)
    enter(recorder, recorder.group([0, 1]))
    launcher.change_state(layout.ENDED)
    found = Recording.load(path)
    assert (found.rank, found.size, found.state, len(found.calls)) == (0, 2, "ended", 1)


def test_without_its_file_a_recorder_records_in_memory(tmp_path: Path) -> None:
    recorder = FlightRecorder.of_process({"MPIPARALLEL_FLIGHT": str(tmp_path / "missing" / "flight")}, 5, 6)
    assert (read(recorder).rank, read(recorder).size) == (5, 6)
    assert not (tmp_path / "missing").exists()


def test_the_ring_keeps_the_last_calls() -> None:
    recorder = FlightRecorder(None, 0, 2)
    world = recorder.group([0, 1])
    for _ in range(layout.RING + 10):
        recorder.leave(enter(recorder, world))
    found = read(recorder)
    assert [call.number for call in found.calls] == list(range(11, layout.RING + 11))
    assert found.groups[0].entered == layout.RING + 10
    assert found.inside is None


def test_more_groups_and_texts_than_there_is_room_for_cost_only_their_names() -> None:
    recorder = FlightRecorder(None, 0, 2)
    for index in range(layout.MOST_GROUPS + 50):
        last = enter(recorder, recorder.group([0, index + 1]), f"a rather long name of a call {index:100d}")
    recorder.leave(last)
    found = read(recorder)
    assert len(found.groups) <= layout.MOST_GROUPS
    assert found.calls[-1].number == layout.MOST_GROUPS + 50


def test_groups_of_the_same_ranks_are_told_apart() -> None:
    recorder = FlightRecorder(None, 0, 2)
    first, second = recorder.group([0, 1]), recorder.group([0, 1])
    enter(recorder, second)
    assert first != second
    assert [(group.name, group.entered, str(group)) for group in read(recorder).groups] == [
        ("0-1", 0, "all ranks"),
        ("0-1/2", 1, "all ranks"),
    ]


def test_a_call_inside_another_leaves_the_outer_one_going_on() -> None:
    recorder = FlightRecorder(None, 0, 2)
    world = recorder.group([0, 1])
    outer = enter(recorder, world, "share")
    inner = enter(recorder, world, "all_gather")
    recorder.leave(inner, outer)
    inside = read(recorder).inside
    assert inside is not None
    assert inside.name == "share"


def test_a_message_is_not_taken_for_a_collective_of_its_group() -> None:
    recorder = FlightRecorder(None, 0, 2)
    world = recorder.group(range(2))
    recorder.leave(recorder.enter_message(world, recorder.text("send"), 0, 4, 1))
    found = read(recorder)
    assert found.call(found.groups[world], 1) is None
    enter(recorder, world, "barrier")
    found = read(recorder)
    call = found.call(found.groups[world], 1)
    assert call is not None
    assert call.name == "barrier"


def test_a_killed_process_leaves_its_last_call(tmp_path: Path) -> None:
    path = tmp_path / "flight.bin"
    program = f"""
import os, signal
from dataclasses import replace
from pathlib import Path
from mpiparallel.cluster.flight.recorder import FlightRecorder
recorder = FlightRecorder(Path({str(path)!r}), 1, 2)
recorder.enter(recorder.group([0, 1]), recorder.text("all_reduce"), recorder.text("layer3.w"), 7)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = patience.run([sys.executable, "-c", program])
    assert ended.returncode == -signal.SIGKILL
    found = Recording.load(path)
    assert str(found.inside) == "all_reduce #1 (layer3.w, all ranks)"
    assert process_state(found) == "dead"


def test_a_stopped_process_is_told_from_one_that_runs(tmp_path: Path) -> None:
    path = tmp_path / "flight.bin"
    program = f"""
import time
from dataclasses import replace
from pathlib import Path
from mpiparallel.cluster.flight.recorder import FlightRecorder
recorder = FlightRecorder(Path({str(path)!r}), 1, 2)
print("ready", flush=True)
time.sleep(86400)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            found = Recording.load(path)
            assert process_state(found) == ""
            process.send_signal(signal.SIGSTOP)
            patience.wait_until(lambda: process_state(found) == "stopped")
        finally:
            process.kill()


@given(st.lists(st.integers(0, 400), min_size=1, unique=True))
def test_spans_name_ranks_and_are_read_back(ranks: list[int]) -> None:
    assert ranks_of(spans(ranks)) == tuple(sorted(ranks))


@settings(max_examples=300)
@given(st.data())
def test_whatever_is_in_a_file_it_is_read_or_refused(data: st.DataObject) -> None:
    recorder = FlightRecorder(None, 0, 2)
    enter(recorder, recorder.group([0, 1]))
    memory = bytearray(recorder.memory)
    for _ in range(data.draw(st.integers(1, 30))):
        memory[data.draw(st.integers(8, 1000) | st.integers(8, len(memory) - 1))] = data.draw(st.integers(0, 255))
    found = Recording.of_memory(bytes(memory))
    assert all(isinstance(str(call), str) for call in found.calls)


@pytest.mark.parametrize("content", [b"", b"MPIFLT01", b"x" * layout.BYTES, b"MPIFLT01" * layout.BYTES])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "flight.bin"
    path.write_bytes(content)
    with pytest.raises(LaunchError, match=r"flight.bin: is not the file of a flight recorder"):
        Recording.load(path)


def test_a_text_for_which_there_is_no_more_room_is_left_out_and_the_others_stay() -> None:
    recorder = FlightRecorder(None, 0, 1)
    world = recorder.group([0])
    enter(recorder, world, "barrier", "first")
    enter(recorder, world, "barrier", "x" * layout.TEXTS_BYTES)
    enter(recorder, world, "barrier", "later")
    assert [call.label for call in read(recorder).calls] == ["first", "", "later"]


def test_ranks_that_no_job_has_are_not_counted_up() -> None:
    assert ranks_of("0-2,5-99999999") == ()
    assert len(ranks_of("0-99999")) == 100_000


def test_what_the_system_says_of_a_process_holds_on_its_host_only() -> None:
    # No process has this number.
    here = replace(read(FlightRecorder(None, 0, 1)), process=1 << 30)
    assert process_state(here) == "dead"
    assert process_state(replace(here, host="elsewhere")) == ""
    assert process_state(replace(here, process_space=here.process_space + 1)) == ""
    assert birth_of(1 << 30) is None
