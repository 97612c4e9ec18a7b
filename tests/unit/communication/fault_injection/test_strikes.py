"""When faults strike, in what order, on which communicator and in which folder: each of them once."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.cluster.fault_plan import FaultPlan
from mpiparallel.communication.fault_injection import FaultSchedule, fault_schedule
from mpiparallel.communication.threads import alone
from mpiparallel.errors import ConfigurationError


def schedule(text: str, rank: int = 0, size: int = 2) -> FaultSchedule:
    plan = FaultPlan.parse(text)
    return FaultSchedule(plan.faults(size), rank, Path(plan.folder))


class Listening:
    """A communicator of two that says what is called."""

    size = 2

    def __init__(self) -> None:
        self.told: list[str] = []

    def barrier(self) -> None:
        self.told.append("barrier")

    def broadcast(self, array: Any, root: int) -> None:
        self.told.append("broadcast")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # What strikes as each of the collectives 1, 3, 4 and 4 begins; 2 was none.
        ("exception@0:1", ["at collective 1", "", "", ""]),
        ("exception@0:2", ["", "at collective 2", "", ""]),
        ("exception@0:3", ["", "at collective 3", "", ""]),
        ("exception@0:5", ["", "", "", ""]),
        ("exception@1:1", ["", "", "", ""]),
        ("exception@0:1:after", ["", "after collective 1", "", ""]),
        ("exception@0:2:after", ["", "after collective 2", "", ""]),
        ("exception@0:3:after", ["", "", "after collective 3", ""]),
        ("exception@0:4:after", ["", "", "", ""]),
        ("exception@0:4,exception@0:1", ["at collective 1", "", "at collective 4", ""]),
        ("exception@0:3,exception@0:2:after", ["", "after collective 2", "at collective 3", ""]),
    ],
)
def test_a_fault_strikes_once_at_its_collective_or_at_the_next(text: str, wanted: list[str]) -> None:
    faults, found = schedule(text), []
    for number in (1, 3, 4, 4):
        try:
            faults.inject(number, "all_reduce", alone())
        except RuntimeError as error:
            found.append(str(error).removeprefix("chaos: raise an exception on rank 0 "))
        else:
            found.append("")
    assert found == wanted


def test_what_strikes_after_a_collective_does_so_when_it_has_ended_and_not_before() -> None:
    faults = schedule("exception@0:2:after")
    faults.inject(2, "all_reduce", alone())
    faults.left(1)
    with pytest.raises(RuntimeError, match=r"^chaos: raise an exception on rank 0 after collective 2$"):
        faults.left(2)
    faults.left(2)


def test_a_schedule_is_empty_where_nothing_is_left_to_strike() -> None:
    assert [bool(schedule(text)) for text in ("exception@0:1", "exception@0:1/F0", "exception@1:1")] == [
        True,
        True,
        False,
    ]
    faults = schedule("exception@0:1,exception@0:1/F0")
    for strike in (lambda: faults.inject(1, "barrier", alone()), lambda: faults.begin("F0")):
        assert faults
        with pytest.raises(RuntimeError, match="raise an exception on rank 0"):
            strike()
    assert not faults


def test_a_wrong_collective_is_called_where_the_last_one_was() -> None:
    first, last = Listening(), Listening()
    faults = schedule("wrong-operation@0:2,wrong-operation@0:2:after")
    for number, communicator in ((1, first), (2, last)):
        faults.inject(number, "barrier", communicator)  # type: ignore[arg-type]
    # It is another one than the barrier that is due, and none is due afterwards.
    assert (first.told, last.told) == ([], ["broadcast"])
    faults.left(2)
    assert (first.told, last.told) == ([], ["broadcast", "barrier"])


def test_before_the_first_collective_there_is_nobody_to_call_a_wrong_one_with(
    capsys: pytest.CaptureFixture[str],
) -> None:
    communicator = Listening()
    schedule("wrong-operation@0:1:after").inject(3, "barrier", communicator)  # type: ignore[arg-type]
    words = "mpiparallel: chaos: let rank 0 call another collective than the others after collective 1\n"
    assert (capsys.readouterr().err, communicator.told) == (words, [])


@pytest.mark.parametrize(
    ("when", "steps", "wanted"),
    [
        # Which begun action of two steps it strikes at; "" is the end of a step.
        ("1/F0", ["F0", "W0", "F0", "", "F0", "W0", ""], 0),
        ("2/F0", ["F0", "W0", "F0", "", "F0", "W0", ""], 4),
        ("2/W0", ["F0", "W0", "F0", "", "F0", "W0", ""], 5),
        ("1/F0:after", ["F0", "F0", "", "F0"], 1),
        ("1/W0:after", ["F0", "W0", "", "F0"], 2),
        ("2/W0:after", ["F0", "W0", "", "F0", "W0", "F1", ""], 5),
        ("3/F0", ["F0", "W0", "F0", "", "F0", "W0", ""], None),
        ("1/F1", ["F0", "W0", ""], None),
    ],
)
def test_an_action_counts_once_a_step_and_is_over_as_the_next_begins(
    when: str, steps: list[str], wanted: int | None
) -> None:
    faults, struck = schedule(f"exception@0:{when}"), []
    for place, action in enumerate(steps):
        try:
            faults.begin(action)
        except RuntimeError:
            struck.append(place)
    assert struck == ([] if wanted is None else [wanted])


def flippable(folder: Path) -> Path:
    """Commit a shard of one byte of rank 0."""
    folder.mkdir()
    (folder / "net.h5").write_bytes(b"\0")
    (folder / "net.manifest.json").write_text(json.dumps({"manifest": {"shards": [{"file": "net.h5"}]}}))
    return folder / "net.h5"


@pytest.mark.parametrize("when", ["1", "1/F0", "1:in", "1/F0:in", "1:after", "1/F0:after"])
def test_what_is_planned_for_a_folder_strikes_there_at_any_moment(when: str, tmp_path: Path) -> None:
    shard = flippable(tmp_path / "saved")
    known = {"MPIPARALLEL_CHAOS": f"flip@0:{when},folder={tmp_path / 'saved'}"}
    faults = FaultSchedule.of_environment(0, 1, known)
    before = {*threading.enumerate()}
    faults.inject(1, "all_reduce", alone())
    faults.begin("F0")
    timers = [thread for thread in threading.enumerate() if thread not in before]
    # It must not keep a process alive that ends meanwhile.
    assert all(timer.daemon for timer in timers)
    for timer in timers:
        timer.join()
    assert not when.endswith("after") or shard.read_bytes() == b"\0"
    faults.left(1)
    faults.begin("")
    assert int(np.unpackbits(np.frombuffer(shard.read_bytes(), np.uint8)).sum()) == 1
    assert not faults


@pytest.mark.parametrize("count", ["x", "-1", "1.0", "\u0663", "1" * 10, "\u00b2"])
def test_a_number_of_restarts_that_is_none_is_refused_on_all_ranks(count: str) -> None:
    known = {"MPIPARALLEL_CHAOS": "exception@0:1", "MPIPARALLEL_RESTART_COUNT": count}
    for rank in (0, 1):
        with pytest.raises(ConfigurationError) as caught:
            FaultSchedule.of_environment(rank, 2, known)
        assert str(caught.value) == f'MPIPARALLEL_RESTART_COUNT="{count}" is no number of restarts; unset it'


@pytest.mark.parametrize(
    ("count", "attempts", "is_struck"),
    [
        ("", "", True),
        ("0", "", True),
        ("1", "", False),
        ("2", ",attempts=1-2", True),
        ("3", ",attempts=1-2", False),
        ("0", ",attempts=1-2", False),
        ("123456789", ",attempts=123456789", True),
    ],
)
def test_a_job_is_struck_in_the_attempts_named_and_rank_0_says_so(
    count: str, attempts: str, is_struck: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    known = {"MPIPARALLEL_CHAOS": f"exception@1:2{attempts}", "MPIPARALLEL_RESTART_COUNT": count}
    assert not FaultSchedule.of_environment(0, 2, known)
    words = "mpiparallel: chaos: raise an exception on rank 1 at collective 2\n"
    assert capsys.readouterr().err == (words if is_struck else "")
    assert bool(FaultSchedule.of_environment(1, 2, known)) is is_struck
    assert capsys.readouterr().err == ""


def test_a_rank_that_is_not_there_is_refused_on_all_ranks_in_any_attempt() -> None:
    for count in ("0", "1"):
        known = {"MPIPARALLEL_CHAOS": "kill@2:1", "MPIPARALLEL_RESTART_COUNT": count}
        for rank in (0, 1):
            with pytest.raises(ConfigurationError, match="there is no rank 2 among 2; name one from 0 to 1"):
                FaultSchedule.of_environment(rank, 2, known)
    assert not FaultSchedule.of_environment(0, 2, {"MPIPARALLEL_CHAOS": ""})


def test_a_rank_of_any_number_has_its_faults() -> None:
    assert [bool(schedule("exception@1000:1", int(number), 1001)) for number in ("999", "1000")] == [False, True]


def test_of_two_faults_at_one_action_the_second_waits_for_the_action_to_come_again() -> None:
    faults, struck = schedule("exception@0:1/F0,exception@0:1/F0"), []
    for place, action in enumerate(["F0", "W0", "", "W0", "F0", "W0", ""]):
        try:
            faults.begin(action)
        except RuntimeError:
            struck.append(place)
    assert struck == [0, 4]


@pytest.mark.parametrize(("when", "is_beside"), [("1", False), ("1:in", True), ("1/F0", False), ("1/F0:in", True)])
def test_what_strikes_within_does_so_beside_the_thread_of_the_rank(
    when: str, is_beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    struck, threads = threading.Event(), list[bool]()

    def strike(*given: Any) -> None:
        threads.append(threading.current_thread() is not threading.main_thread())
        struck.set()

    monkeypatch.setattr(fault_schedule, "inject_fault", strike)
    faults = schedule(f"flip@0:{when}")
    faults.inject(1, "all_reduce", alone())
    faults.begin("F0")
    assert struck.wait(10.0)
    assert threads == [is_beside]
