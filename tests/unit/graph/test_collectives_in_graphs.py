"""NCCL's calls in graphs, on ranks whose GPUs are not there: one entry a call, the streams forked and joined."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.cupy_backend import CupyBackend
from mpiparallel.communication.threads import run_world
from mpiparallel.communication.transport.in_flight import InFlight
from mpiparallel.communication.transport.nccl import NcclCall
from mpiparallel.dtype import bfloat16
from mpiparallel.errors import CaptureError
from tests.conformance.hidden_arrays.checked_capture import capture_nothing
from tests.conformance.hidden_arrays.nccl import NcclCommunicator, NcclMismatchError
from tests.conformance.hidden_arrays.ranks import Rank, gpus_of_their_own, travel_by
from tests.conformance.hidden_arrays.stream import CapturedError
from tests.unit.graph import test_captured_programs
from tests.unit.graph.test_captured_programs import (
    CASES,
    STEPS,
    TOLERANCES,
    Case,
    accumulating,
    assert_alike,
    on,
    scaled,
)

ON_RANKS: dict[str, Case] = {
    "Momentum": replace(CASES["Momentum"], ranks=2),
    "Adam": replace(CASES["Adam"], ranks=2),
    "bfloat16": replace(CASES["Momentum"], ranks=2, dtype=bfloat16),
    "overflow on ranks": CASES["overflow on ranks"],
    "accumulation on ranks": CASES["accumulation on ranks"],
    "overflow of float16": Case(step=scaled, infinite=frozenset({3}), dtype=np.float16, ranks=2),
    "dropout": replace(CASES["dropout"], ranks=2),
}
WHOLE = ("Momentum", "Adam")


@pytest.fixture
def device(tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    with gpus_of_their_own(tmp_path) as patch:
        travel_by(patch, "nccl")
        yield patch


def in_graphs() -> list[bool]:
    """Return for each call that NCCL was given whether a graph gave it."""
    return [call[-2] == "in a graph" for one in NcclCommunicator.made for call in one.log]


@pytest.mark.parametrize("name", ON_RANKS)
def test_steps_with_collectives_in_graphs_are_those_of_the_host_and_to_the_bit_those_without_graphs(
    device: pytest.MonkeyPatch, name: str
) -> None:
    case = ON_RANKS[name]
    if case.step is accumulating:
        # An update after three batches is recorded late: in the sixth run, and the ranks agree after the eighth.
        device.setattr(test_captured_programs, "STEPS", 12)
    wanted, *_ = on("CPU", case)
    replayed = on("GPU", case)
    assert any(in_graphs())
    capture_nothing(device)
    for found, plain in zip(replayed, on("GPU", case), strict=True):
        assert_alike(found, wanted, *TOLERANCES[case.dtype])
        assert_alike(found, plain, 0)


@pytest.mark.parametrize("name", WHOLE)
def test_a_step_on_ranks_is_one_graph_from_the_third_on_and_the_host_waits_for_nothing(
    device: pytest.MonkeyPatch, name: str
) -> None:
    for found in on("GPU", ON_RANKS[name]):
        # The first step makes all ready, the second is recorded, and then the ranks agree.
        assert found.graphs == [0, 0, *[1] * (STEPS - 2)]
        assert found.reads == [0] * STEPS
    calls = in_graphs()
    assert calls.count(True) == (STEPS - 2) * calls.count(False) // 2 > 0


def test_each_call_of_a_graph_is_written_down_once_and_watched_until_the_graph_has_ended(
    device: pytest.MonkeyPatch,
) -> None:
    noted, added, lock = [], [], threading.Lock()
    note, add = NcclCall.noted, InFlight.add

    def counted(self: NcclCall) -> Any:
        with lock:
            noted.append(self.words)
        return note(self)

    def watched(self: InFlight, *given: Any) -> None:
        with lock:
            added.append(given)
        add(self, *given)

    device.setattr(NcclCall, "noted", counted)
    device.setattr(InFlight, "add", watched)
    on("GPU", ON_RANKS["Momentum"])
    assert len(noted) == len(added) == len(in_graphs())


def refuse_on_one(device: pytest.MonkeyPatch) -> None:
    """Let one of two ranks record nothing."""
    capture, ranks = CupyBackend.capture, dict[int, int]()

    def refused_on_one(self: CupyBackend, work: Any) -> Any:
        if ranks.setdefault(threading.get_ident(), len(ranks)):
            raise CaptureError("cannot be recorded on this rank")
        return capture(self, work)

    device.setattr(CupyBackend, "capture", refused_on_one)


def test_what_one_rank_cannot_record_no_rank_replays(
    device: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wanted, *_ = on("CPU", ON_RANKS["Momentum"])
    refuse_on_one(device)
    with caplog.at_level(logging.WARNING):
        first, second = on("GPU", ON_RANKS["Momentum"])
    for found in (first, second):
        assert_alike(found, wanted, *TOLERANCES[np.float32])
    assert sorted((first.graphs[-1] > 0, second.graphs[-1] > 0)) == [False, True]
    assert not any(in_graphs())
    assert "not all ranks can record the same collectives" in caplog.text


def test_without_that_agreement_the_calls_of_the_ranks_would_differ(device: pytest.MonkeyPatch) -> None:
    refuse_on_one(device)
    device.setattr("mpiparallel.communication.threads.communicator.ThreadCommunicator.any_true", lambda *_: False)
    with pytest.raises(NcclMismatchError):
        on("GPU", ON_RANKS["Momentum"])


@pytest.mark.parametrize("way", ["ipc", "staging"])
def test_a_way_in_which_the_host_has_a_part_is_between_graphs_and_named_once(
    device: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    travel_by(device, way)
    with caplog.at_level(logging.WARNING):
        for found in on("GPU", ON_RANKS["Momentum"]):
            assert found.graphs[-1] > 0
    assert caplog.text.count(f"travels by {way}; the host gives it by itself") == 1


def planted(communicator: Any, fault: str) -> str:
    """Record a call of NCCL with a fault, alone; return what the device says."""
    rank = Rank(communicator)
    array = rank.array(np.ones(4, np.float32))
    call = rank.transport.all_reduce(array)
    call.run()
    rank.backend.to_host(array)

    def work() -> None:
        if fault == "no fork":
            rank.backend.communication.wait_event = lambda _event: None
        end = call.start()
        if fault == "asks":
            rank.transport.group.in_flight.add(None, call.noted(), rank.backend.compute.record())
        if fault != "no join":
            end()

    with rank.transport.group.in_flight.recording() as calls:
        try:
            rank.backend.capture(work)
        except CapturedError as error:
            return str(error)
    return f"{len(calls)} recorded"


def test_a_missing_fork_or_join_and_a_look_at_an_event_end_a_capture(device: pytest.MonkeyPatch) -> None:
    said = {fault: run_world(2, planted, fault)[0] for fault in ("none", "no fork", "no join", "asks")}
    assert said["none"] == "1 recorded"
    assert "no part of the capture" in said["no fork"]
    assert "was not waited for" in said["no join"]
    assert "asks whether an event has come" in said["asks"]
