"""From where a training goes on when a rank has died."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mpiparallel.train import CheckpointConfig, LossMonitor, ModelCheckpoint
from mpiparallel.train.recovery import Recovery


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
