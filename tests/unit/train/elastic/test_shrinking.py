"""When a training is to go on without ranks that die, and from where."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from mpiparallel import set_auto_parallel_context
from mpiparallel.train import CheckpointConfig, LossMonitor, ModelCheckpoint
from mpiparallel.train.elastic import shrinking
from mpiparallel.train.elastic.shrinking import is_wanted
from mpiparallel.train.recovery import Recovery

SURVIVAL = "mpiparallel.communication.mpi.survival"


def world(rank: int = 0, size: int = 4, library: str = "Open MPI") -> Any:
    return SimpleNamespace(rank=rank, size=size, library=library)


@pytest.fixture
def problem(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """What the MPI library lacks, as a stand-in for it says: this process starts no MPI."""
    lacks: list[str | None] = [None]
    library = ModuleType(SURVIVAL)
    library.survival_problem = lambda: lacks[0]  # type: ignore[attr-defined]
    package = ModuleType(SURVIVAL.rpartition(".")[0])
    package.survival = library  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, SURVIVAL.rpartition(".")[0], package)
    monkeypatch.setitem(sys.modules, SURVIVAL, library)
    return lacks


@pytest.mark.parametrize(
    ("mode", "policy", "communicator", "wanted"),
    [
        ("data_parallel", "shrink", world(), True),
        ("semi_auto_parallel", "shrink", world(rank=3, size=2), True),
        ("stand_alone", "shrink", world(), False),
        ("data_parallel", "shrink", world(size=1), False),
        ("data_parallel", "shrink", world(library="threads"), False),
        ("data_parallel", "abort", world(), False),
        ("data_parallel", None, world(), False),
    ],
)
def test_a_training_of_several_ranks_together_goes_on_where_it_is_asked_to(
    monkeypatch: pytest.MonkeyPatch, problem: list[str | None], mode: str, policy: str | None, communicator: Any, wanted
) -> None:
    if policy is None:
        monkeypatch.delenv("MPIPARALLEL_ON_FAILURE", raising=False)
    else:
        monkeypatch.setenv("MPIPARALLEL_ON_FAILURE", policy)
    set_auto_parallel_context(parallel_mode=mode)
    assert is_wanted(communicator) is wanted


@pytest.mark.parametrize("rank", [0, 1])
def test_where_the_mpi_library_cannot_the_first_rank_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], problem: list[str | None], rank: int
) -> None:
    problem[0] = "MPI is too old"
    monkeypatch.setenv("MPIPARALLEL_ON_FAILURE", "shrink")
    set_auto_parallel_context(parallel_mode="data_parallel")
    assert not is_wanted(world(rank))
    said = "mpiparallel: MPIPARALLEL_ON_FAILURE=shrink: the training cannot go on when a rank dies: MPI is too old\n"
    assert capsys.readouterr().err == (said if rank == 0 else "")


def test_a_training_goes_on_from_its_own_last_commit_else_from_that_it_resumed_else_from_none(tmp_path: Path) -> None:
    asked: list[Any] = []
    model: Any = SimpleNamespace(resumed=None, shrinking=asked.append)
    saving = ModelCheckpoint("net", str(tmp_path / "own"), CheckpointConfig())
    Recovery(model, [LossMonitor(), saving])
    (commit,) = asked
    assert commit() == ()
    model.resumed = SimpleNamespace(folder=tmp_path / "before", prefix="old")
    assert commit() == (str(tmp_path / "before"), "old")
    saving.last_manifest = tmp_path / "own" / "net-1_1.manifest.json"
    assert commit() == (str(tmp_path / "own"), "net")


class Timer:
    """Stands for a timer: it notes what it is made of, and what is done with it."""

    made: ClassVar[list[Timer]] = []

    def __init__(self, seconds: float, function: Any, arguments: list[str]) -> None:
        self.call, self.done, self.daemon = (seconds, function, arguments), list[str](), False
        self.made.append(self)

    def start(self) -> None:
        self.done.append("start")

    def cancel(self) -> None:
        self.done.append("cancel")


def test_survivors_that_do_not_find_each_other_in_a_minute_end_the_job(
    monkeypatch: pytest.MonkeyPatch, problem: list[str | None]
) -> None:
    library: Any = sys.modules[SURVIVAL]
    library.give_up, library.agreed = print, lambda everyone, flag: not flag
    monkeypatch.setattr(shrinking.threading, "Timer", Timer)
    monkeypatch.setattr(Timer, "made", [])
    resharding: Any = SimpleNamespace(membership=SimpleNamespace(everyone=None))
    one = shrinking.Shrinking(SimpleNamespace(), resharding, tuple)  # type: ignore[arg-type]
    assert not one.have_all_ended()
    (timer,) = Timer.made
    assert timer.call == (60.0, print, ["the survivors did not agree within 60 s"])
    # No thread of it holds up the end of the program, and nothing happens later.
    assert (timer.daemon, timer.done) == (True, ["start", "cancel"])


@pytest.mark.parametrize(
    ("stages", "counts"),
    [(1, {1: {}, 4: {}}), (2, {4: 2, 3: 1, 1: 1}), (4, {8: 4, 7: 1, 6: 3, 5: 1, 3: 3, 2: 2, 1: 1})],
)
def test_survivors_go_on_in_as_many_stages_as_they_can_share_out_to(stages: int, counts: dict[int, Any]) -> None:
    set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=8, pipeline_stages=stages)
    for count, wanted in counts.items():
        assert shrinking._stages_for(count) == ({"pipeline_stages": wanted} if wanted else {})


def test_no_callback_is_called_again_that_any_rank_has_called_after_the_step_from_which_survivors_go_on() -> None:
    def said(copy: int, copied: tuple[str, int], live: int, position: tuple[str, int]) -> dict[str, Any]:
        places = [{"moment": moment, "told": told} for moment, told in (copied, position)]
        return {"copy": copy, "copied": places[0], "live": live, "position": places[1]}

    begins, ends = ("step_begin", 2), ("step_end", 0)
    for trainers, step, furthest in (
        ([said(4, begins, 5, ends), said(4, ("step_begin", 3), 5, ("step_end", 1))], 4, ("step_begin", 3)),
        ([said(4, begins, 5, ends), said(4, ("step_begin", 3), 5, ("step_end", 1))], 5, ("step_end", 1)),
        ([said(5, begins, 6, ends), said(4, begins, 5, ("every_step", 9))], 5, begins),
        ([said(4, begins, 5, ("every_step", 9)), said(3, begins, 5, ends)], 5, ends),
        ([said(5, begins, -1, ends), said(5, ("step_begin", 1), -1, ends)], 5, begins),
    ):
        found = shrinking._furthest(trainers, step)
        assert (found["moment"], found["told"]) == furthest
