"""The bench on which a watch is tried, and ranks of it whose logs are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.launch.watching.bench import Bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """An mpirun of four ranks that does nothing, and what it is sent."""
    return Bench(tmp_path, monkeypatch)


@pytest.fixture
def logged(bench: Bench) -> Bench:
    """The same, of ranks that have called and have a log."""
    bench.all_call()
    for folder in bench.folders:
        folder.path.mkdir()
        folder.log.touch()
    return bench
