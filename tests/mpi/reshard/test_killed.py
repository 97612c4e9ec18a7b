from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.resharding.reshard_states import RANKS

pytestmark = pytest.mark.mpi

PHASES = {
    "agreement": ("packed", "safe", "all_reduce", 1),
    "shared targets": ("shared", "safe", "share", 1),
    "structures": ("datatypes", "safe", "strided_exchange", 1),
    "windows": ("packed", "safe", "exchange", 1),
    "checksums": ("shared", "safe", "barrier", 2, "all_reduce", 1),
    "digest after": ("datatypes", "safe", "strided run", 1, "all_reduce", 2),
    "windows of the second wave": ("packed", "bounded", "exchange", 2),
    "structures of the second wave": ("datatypes", "bounded", "strided run", 2),
    "checksums of the second wave": ("shared", "bounded", "barrier", 4, "all_reduce", 1),
}


@pytest.mark.parametrize("phase", PHASES)
def test_a_rank_killed_in_any_phase_ends_the_job_and_the_launcher_tells_it(
    mpi_run: Callable[..., str], phase: str
) -> None:
    output = mpi_run(RANKS, "tests.mpi.reshard.killed_ranks", *PHASES[phase], fails=True)
    assert "signal 9" in output.lower()
    assert "survived" not in output


def test_a_rank_that_nobody_kills_survives(
    mpi_run: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Where the choice of the executor is kept; the user's folder is left alone.
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert "rank 1 survived" in mpi_run(RANKS, "tests.mpi.reshard.killed_ranks", "auto", "bounded")
    assert list(tmp_path.rglob("*.json"))
