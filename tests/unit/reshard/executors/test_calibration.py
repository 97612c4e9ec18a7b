from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ReshardError
from mpiparallel.reshard.executors import calibration
from mpiparallel.reshard.executors.calibration import Calibration, calibration_of
from mpiparallel.reshard.executors.choice import ExecutorChoice
from mpiparallel.reshard.executors.traffic_shape import TrafficShape


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
