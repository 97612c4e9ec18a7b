from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ReshardError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.executors import calibration
from mpiparallel.reshard.executors.calibration import Calibration, calibration_of
from mpiparallel.reshard.executors.choice import ExecutorChoice
from mpiparallel.reshard.executors.traffic_shape import TrafficShape
from mpiparallel.reshard.movement import Movement


class OtherLibrary:
    """Ranks of a library whose quickest executor nobody knows yet."""

    library = "Some MPI 1.0"

    def __init__(self, communicator: Communicator, can_share: bool = True) -> None:
        self._communicator = communicator
        self.can_share = can_share

    def __getattr__(self, name: str) -> Any:
        return getattr(self._communicator, name)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(calibration, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(calibration, "_LARGE_BYTES_A_RANK", 1 << 12)
    monkeypatch.setattr(calibration, "_SMALL_TENSORS", 2)
    return tmp_path / "cache" / "reshard_executors.json"


def calibrated(communicator: Communicator) -> Calibration:
    return calibration_of(OtherLibrary(communicator))


def test_a_measurement_is_made_once_and_kept_for_the_library(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_world(3, calibrated)
    assert len(set(first)) == 1
    assert json.loads(cache.read_text()) == {"Some MPI 1.0, one host": [first[0].large, first[0].small]}
    monkeypatch.setattr(calibration, "measure", lambda _: pytest.fail("measured again"))
    assert run_world(3, calibrated) == first


@pytest.mark.parametrize(
    ("asked", "bytes_a_piece", "taken"),
    [("auto", 1 << 24, "datatypes"), ("auto", 4, "packed"), ("shared", 4, "shared")],
)
def test_what_was_quickest_is_taken_unless_another_is_asked_for(
    cache: Path, asked: str, bytes_a_piece: int, taken: str
) -> None:
    cache.parent.mkdir()
    cache.write_text(json.dumps({"Some MPI 1.0, one host": ["datatypes", "packed"]}))
    traffic = TrafficShape(share=1.0, largest_stream=1 << 24, mean_piece=bytes_a_piece, dense=True)
    found = run_world(2, lambda communicator: ExecutorChoice(asked, OtherLibrary(communicator)).choose(traffic))
    assert found == [taken, taken]


def test_ranks_on_several_hosts_are_measured_for_themselves(cache: Path) -> None:
    run_world(2, calibrated)
    run_world(2, calibrated, hosts=[0, 1])
    assert sorted(json.loads(cache.read_text())) == ["Some MPI 1.0, one host", "Some MPI 1.0, several hosts"]


def test_a_choice_that_was_kept_is_not_made_where_ranks_do_not_see_each_others_memory(cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text(json.dumps({"Some MPI 1.0, one host": ["shared", "shared"]}))
    found = run_world(2, lambda communicator: calibration_of(OtherLibrary(communicator, can_share=False)))
    assert "shared" not in (found[0].large, found[0].small)


def test_an_executor_without_memory_is_never_the_quickest(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise MemoryError("no pages")

    monkeypatch.setattr(calibration.memory, "shared_targets", refused)
    found = run_world(2, calibrated)
    assert "shared" not in (found[0].large, found[0].small)


def test_a_rank_without_memory_ends_the_measurement_on_all(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = calibration.memory.private_targets

    def refused_to_one(layouts: Any, dtypes: Any, rank: int) -> Any:
        if rank == 1:
            raise MemoryError("no pages")
        return given(layouts, dtypes, rank)

    monkeypatch.setattr(calibration.memory, "private_targets", refused_to_one)

    def refusal(communicator: Communicator) -> None:
        with pytest.raises(ReshardError, match="rank 1: no pages"):
            calibrated(communicator)

    run_world(2, refusal)


@pytest.mark.parametrize("content", ["", "[]", '{"Some MPI 1.0, one host": ["packed", "nccl"]}', "\0"])
def test_a_damaged_file_is_measured_anew(cache: Path, content: str) -> None:
    cache.parent.mkdir()
    cache.write_text(content)
    found = run_world(2, calibrated)[0]
    assert json.loads(cache.read_text())["Some MPI 1.0, one host"] == [found.large, found.small]


def test_a_folder_that_cannot_be_written_to_is_no_error(cache: Path) -> None:
    cache.parent.write_text("a file where the folder should be")
    assert run_world(2, calibrated)[0] in {
        Calibration(a, b) for a in calibration.EXECUTORS for b in calibration.EXECUTORS
    }


@pytest.mark.parametrize(("mean", "taken"), [(65535, "small"), (65536, "large"), (0, "small")])
def test_pieces_of_64_kibibytes_on_average_are_large(mean: int, taken: str) -> None:
    assert Calibration("large", "small").best(TrafficShape(1.0, 1 << 24, mean, dense=True)) == taken


def test_threads_need_no_measurement_and_a_rank_alone_or_nothing_to_move_no_choice(cache: Path) -> None:
    moving, nothing = (TrafficShape(1.0, bytes_, bytes_, dense=True) for bytes_ in (4, 0))

    def choose(communicator: Communicator) -> list[str]:
        choice = ExecutorChoice("auto", communicator)
        choice.calibrate()
        return [choice.choose(moving), choice.choose(nothing)]

    assert run_world(2, choose) == [["datatypes", "packed"]] * 2
    assert run_world(1, choose) == [["packed", "packed"]]
    assert run_world(1, lambda world: ExecutorChoice("shared", world).choose(nothing)) == ["shared"]
    assert not cache.exists()


def test_a_file_keeps_what_was_measured_for_other_libraries(cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text(json.dumps({"Another MPI, one host": ["packed", "packed"]}))
    first = run_world(2, calibrated)[0]
    assert json.loads(cache.read_text()) == {
        "Another MPI, one host": ["packed", "packed"],
        "Some MPI 1.0, one host": [first.large, first.small],
    }


def test_the_file_of_rank_0_can_be_read_by_people(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep, keepers = calibration.keep, list[str]()

    def told(path: Path, content: bytes) -> bool:
        keepers.append(threading.current_thread().name)
        return keep(path, content)

    monkeypatch.setattr(calibration, "keep", told)
    cache.parent.mkdir()
    cache.write_text(json.dumps({"Z, one host": ["packed", "packed"], "A, one host": ["shared", "packed"]}))
    run_world(2, calibrated)
    assert keepers == ["rank 0"]
    assert [line.strip().partition(":")[0] for line in cache.read_text().splitlines() if ":" in line] == [
        '"A, one host"',
        '"Some MPI 1.0, one host"',
        '"Z, one host"',
    ]


@pytest.mark.parametrize("kept", [["packed", "packed"], ["packed", "shared"], ["shared", "datatypes"]])
def test_what_was_kept_is_taken_whatever_it_is(cache: Path, kept: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "measure", lambda _: pytest.fail("measured again"))
    cache.parent.mkdir()
    cache.write_text(json.dumps({"Some MPI 1.0, one host": kept}))
    assert run_world(2, calibrated) == [Calibration(*kept)] * 2


def test_nothing_is_measured_where_an_executor_is_asked_for_or_nothing_moves(cache: Path) -> None:
    halves, copies = (Layout((4,), DeviceMatrix((2,)), cut) for cut in (((0,),), ((),)))

    def begin(communicator: Communicator) -> None:
        other: Any = OtherLibrary(communicator)
        ExecutorChoice("packed", other).calibrate()
        Movement({"w": np.zeros(2)}, {"w": halves}, {"w": halves}, other).forward()

    run_world(2, begin)
    run_world(1, lambda world: ExecutorChoice("auto", OtherLibrary(world)).calibrate())  # type: ignore[arg-type]
    assert not cache.exists()

    def move(communicator: Communicator) -> list[float]:
        other: Any = OtherLibrary(communicator)
        movement = Movement({"w": np.zeros(2)}, {"w": halves}, {"w": copies}, other)
        movement.forward()
        return list(movement.arrays["w"].tolist())

    assert run_world(2, move) == [[0.0] * 4] * 2
    assert cache.exists()


class FakedExecutor:
    """Takes so long by a clock of its own, and notes how many bytes it is to send."""

    clock = threading.local()

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def connect(self) -> None:
        self.clock.now += 0.5

    def run(self) -> None:
        self.clock.now += self._seconds

    def free(self) -> None:
        """Hold nothing."""


def test_the_best_of_three_turns_of_the_slowest_rank_decides_for_large_and_for_small_tensors(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The tensors are as large here as they are for users, and there are a tenth of the small ones.
    monkeypatch.undo()
    monkeypatch.setattr(calibration, "_SMALL_TENSORS", 20)
    monkeypatch.setattr(calibration, "cache_folder", lambda: cache.parent)
    # Seconds of the three turns by executor, for large tensors and for small ones; rank 1 takes a second more by one.
    seconds = {
        "packed": ([9, 5, 7], [1, 9, 9]),
        "datatypes": ([4, 8, 8], [2, 2, 2]),
        "shared": ([4.5, 9, 9], [3, 9, 9]),
    }
    sent: dict[str, set[int]] = {"large": set(), "small": set()}

    def maker(name: str) -> Any:
        def make(bound: Any, communicator: Communicator, *_: Any) -> FakedExecutor:
            small = len(bound.copies) > 10
            sent["small" if small else "large"].add(bound.bytes_sent)
            turns = FakedExecutor.clock.turns.setdefault((name, small), iter(seconds[name][small]))
            return FakedExecutor(next(turns) + (1 if name == "datatypes" and communicator.rank == 1 else 0))

        return make

    for name in seconds:
        monkeypatch.setitem(calibration.EXECUTORS, name, maker(name))
    monkeypatch.setattr(calibration, "time", SimpleNamespace(perf_counter=lambda: FakedExecutor.clock.now))

    def measured(communicator: Communicator) -> Calibration:
        FakedExecutor.clock.now, FakedExecutor.clock.turns = 0.0, {}
        return calibrated(communicator)

    # Large: packed 5, datatypes 4 + 1, shared 4.5. Small: packed 1, datatypes 2 + 1, shared 3.
    assert run_world(4, measured) == [Calibration("shared", "packed")] * 4
    # Of 4 MiB a rank three quarters go elsewhere where rows become columns, and all where parts are passed on.
    assert sent == {"large": {7 << 20}, "small": {20 * 3072}}
