"""When a training is to go on without ranks that die, and from where."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from mpiparallel import set_auto_parallel_context
from mpiparallel.train import CheckpointConfig, LossMonitor, ModelCheckpoint
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
